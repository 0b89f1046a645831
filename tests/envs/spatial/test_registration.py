"""The registered ids, as Gymnasium and its checkers see them."""

import gymnasium
import pytest

from pmoss_env.registration import environments, register_environments

IDS = sorted(environments())


@pytest.mark.parametrize("name", IDS)
def test_gymnasium_accepts_every_id(name):
    env = gymnasium.make(name)
    assert env.spec.max_episode_steps is None
    restored = gymnasium.envs.registration.EnvSpec.from_json(env.spec.to_json())
    assert restored.kwargs == environments()[name]
    env.close()


def test_registering_again_changes_nothing():
    before = dict(gymnasium.registry)
    register_environments()
    assert dict(gymnasium.registry) == before


def test_tasks_whose_bits_changed_have_another_id():
    for machine in ("skylake-x-8n", "milan-nps4"):
        old = f"pmoss/{machine}-rtree-ranges-inserts-v0"
        with pytest.raises(gymnasium.error.DeprecatedEnv, match=r"use `.*-inserts-v1` instead"):
            gymnasium.make(old)
    with pytest.raises(gymnasium.error.DeprecatedEnv, match="use `pmoss/ContinualScheduling-v1`"):
        gymnasium.make("pmoss/ContinualScheduling-v0")
    assert sum(not name.endswith("-v0") for name in environments()) == 3
