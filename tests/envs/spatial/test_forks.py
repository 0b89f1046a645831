"""Vector environments in a process that was forked from theirs."""

import threading

from pmoss_env.envs.spatial.vector import SpatialVectorEnv
from pmoss_env.errors import ForkedError
from tests.envs.episodes import TOY, alike
from tests.forked import in_child


def test_a_child_forked_in_the_middle_of_a_step_gets_an_error():
    """The thread that steps is not there in the child, and what it holds stays held."""
    envs = SpatialVectorEnv(64, **(TOY | {"machine": "skylake-x-8n"}))
    observations, _ = envs.reset(seed=0)
    actions = observations["position_mask"].reshape(64, -1).argmax(1)
    over = threading.Event()

    def keep_stepping():
        # Masked tiles are exchanged for legal ones.
        while not over.is_set():
            envs.step(actions)

    def step_in_child():
        try:
            envs.step(actions)
        except ForkedError as error:
            return 3 if "make it anew" in str(error) else 1
        return 0

    stepping = threading.Thread(target=keep_stepping)
    stepping.start()
    statuses = []
    # Most forks come while the other thread steps without the interpreter's lock.
    while not any(statuses) and len(statuses) < 1000:
        statuses.append(in_child(step_in_child))
    over.set()
    stepping.join()
    assert statuses[-1] == 3


def test_a_child_forked_while_next_episodes_are_prepared_gets_an_error():
    kept, other = (SpatialVectorEnv(4, threads=2, **TOY) for _ in range(2))
    kept.reset(seed=0)
    other.reset(seed=0)

    def reset_in_child():
        try:
            kept.reset()
        except ForkedError as error:
            kept.close()
            return 3 if "make the environment anew" in str(error) else 1
        return 0

    assert in_child(reset_in_child) == 3
    # The parent goes on with what its thread prepared.
    alike(kept.reset()[0], other.reset()[0])
