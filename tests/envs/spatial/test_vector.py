"""The vector environment gives the bits of single ones, and keeps its memory in order."""

from __future__ import annotations

import gc
import sys
import threading
import time
import weakref

import gymnasium
import numpy as np
import pytest

from pmoss_env.envs.spatial.env import SpatialSchedulingEnv
from pmoss_env.envs.spatial.vector import SpatialVectorEnv
from pmoss_env.errors import DescriptionError, UnknownNameError
from tests.envs.alike import alike
from tests.envs.spatial.batches import TOY, follow


def any_tile(seed):
    rng = np.random.default_rng(seed)
    return lambda t, masks: rng.integers(masks.shape[1], size=masks.shape[0])


VARIANTS = [
    {},
    {"observation": "paper"},
    {"observation": "complete"},
    {"reward": "slice"},
    {"reward": "terminal"},
    {"reward": "terminal", "measure_every": 8},
    {"reward": "improvement", "measure_every": 3},
    {"order": "load"},
    {"noise": 1.0},
    {"noise": 1.0, "measure_every": 3},
    {"interference": "busy_core"},
    {"load": "saturated"},
    {"load": "saturated:mix"},
    {"load": "open:3"},
    {"constraints": {"max_slices_per_core": 2}},
    {"on_illegal": "terminate"},
    {"on_illegal": "terminate", "noise": 1.0, "reward": "terminal"},
    {"on_illegal": "terminate", "measure_every": 2},
    {"incumbent": "random", "workload_seed": 5},
    {
        "order": "load",
        "noise": 0.5,
        "interference": "busy_core",
        "constraints": {"max_slices_per_core": 2},
    },
    {"counters": "software"},
]


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_every_row_has_the_bits_of_the_single_environment(variant, copy):
    arguments = {**TOY, **variant}
    envs = SpatialVectorEnv(3, copy=copy, **arguments)
    singles = [SpatialSchedulingEnv(**arguments) for _ in range(3)]
    # Illegal actions among them: 2 of 8 tiles are no workers.
    ended = follow(envs, singles, 11, any_tile(1), 40)
    assert ended >= 3 * 4
    envs.close()


@pytest.mark.parametrize("machine", ["skylake-x-8n", "milan-nps4"])
def test_on_a_server_too(machine):
    arguments = {"machine": machine, "slices": 64, "order": "load", "interference": "busy_core"}
    envs = SpatialVectorEnv(2, threads=2, **arguments)
    singles = [SpatialSchedulingEnv(**arguments) for _ in range(2)]
    assert follow(envs, singles, [7, 3], any_tile(2), 70) == 2


@pytest.mark.parametrize(("num_envs", "threads"), [(1, 1), (5, 2), (5, 3), (2, 8)])
def test_neither_number_nor_threads_change_the_bits(num_envs, threads):
    envs = SpatialVectorEnv(num_envs, threads=threads, noise=1.0, **TOY)
    singles = [SpatialSchedulingEnv(noise=1.0, **TOY) for _ in range(num_envs)]
    assert follow(envs, singles, 21, any_tile(4), 20) == 2 * num_envs


@pytest.mark.parametrize("num_envs", [0, 4097, 10**9])
def test_there_is_a_greatest_number_of_environments(num_envs):
    with pytest.raises(DescriptionError, match=f"num_envs = {num_envs}: must be"):
        gymnasium.make_vec("pmoss/toy-v0", num_envs=num_envs)


def test_gymnasium_makes_it_and_declares_its_autoreset():
    envs = gymnasium.make_vec("pmoss/toy-v0", num_envs=3, threads=2)
    assert isinstance(envs.unwrapped, SpatialVectorEnv)
    assert envs.spec.kwargs["vectorization_mode"] == "vector_entry_point"
    assert envs.metadata["autoreset_mode"] is gymnasium.vector.AutoresetMode.NEXT_STEP
    assert envs.num_envs == 3
    assert envs.single_action_space == gymnasium.spaces.Discrete(8)
    assert envs.action_space.shape == (3,)
    observations, _ = envs.reset(seed=1)
    assert observations in envs.observation_space
    assert envs.observation_space["machine_view"].shape == (3, 2, 4, 21)
    envs.step(envs.action_space.sample())
    envs.close()


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("on_illegal", ["remap", "terminate"])
def test_it_agrees_with_gymnasiums_own_vector_environment(mode, copy, on_illegal):
    arguments = {"num_envs": 3, "on_illegal": on_illegal}
    native = gymnasium.make_vec("pmoss/toy-v0", **arguments, copy=copy, autoreset_mode=mode)
    synchronous = gymnasium.make_vec(
        "pmoss/toy-v0",
        **arguments,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": mode},
    )
    assert native.observation_space == synchronous.observation_space
    assert native.action_space == synchronous.action_space
    assert native.metadata["autoreset_mode"] == synchronous.metadata["autoreset_mode"]
    assert native.unwrapped.autoreset_mode == native.metadata["autoreset_mode"]
    assert native.unwrapped.get_attr("slices") == (8, 8, 8)
    steps = [native.reset(seed=9), synchronous.reset(seed=9)]
    rng = np.random.default_rng(0)
    for _ in range(30):
        for one, other in zip(*steps, strict=True):
            alike(one, other)
        actions = rng.integers(8, size=3)
        steps = [native.step(actions), synchronous.step(actions)]


def test_seeds_decide_and_generators_go_on():
    one, other = (SpatialVectorEnv(2, **TOY) for _ in range(2))
    first, _ = one.reset(seed=[4, None])
    again, _ = other.reset(seed=np.int64(4))
    assert first["machine_view"].shape[0] == 2
    assert np.array_equal(first["incumbent_view"][0], again["incumbent_view"][0])
    assert not np.array_equal(first["incumbent_view"][1], again["incumbent_view"][1])
    one.reset(seed=3)
    other.reset(seed=3)
    for _ in range(2):
        a, b = one.reset()[0], other.reset()[0]
        assert all(a[key].tobytes() == b[key].tobytes() for key in a)


def test_an_incumbent_can_be_given_to_all():
    envs = SpatialVectorEnv(2, **TOY)
    _, infos = envs.reset(seed=0, options={"incumbent": [1] * 8})
    assert infos["incumbent_throughput"][0] == infos["throughput"][0]
    assert all((schedule.cores == 1).all() for schedule in envs.call("incumbent"))
    with pytest.raises(UnknownNameError, match="reset_mask"):
        envs.reset(options={"reset_mask": np.array([True, False])})


def test_copies_are_fresh_and_the_others_are_the_same():
    fresh = SpatialVectorEnv(2, **TOY)
    first, _ = fresh.reset(seed=0)
    kept = {key: rows.copy() for key, rows in first.items()}
    held = [first]
    for _ in range(12):
        observations, *_ = fresh.step(np.array([1, 2]))
        for rows in observations.values():
            assert not any(np.shares_memory(rows, old) for o in held for old in o.values())
            rows[...] = 1  # what a user writes there harms nobody
        held.append(observations)
    assert all(first[key].tobytes() == kept[key].tobytes() for key in kept)

    shared = SpatialVectorEnv(2, copy=False, **TOY)
    first, _ = shared.reset(seed=0)
    for _ in range(12):
        observations, *_ = shared.step(np.array([1, 2]))
        assert all(np.shares_memory(observations[key], first[key]) for key in first)
        assert not any(rows.flags.writeable for rows in observations.values())


def test_memory_goes_back_when_the_last_array_does():
    envs = SpatialVectorEnv(2, **TOY)
    observations, _ = envs.reset(seed=0)
    # A part of an observation keeps it: what is fresh never lies there.
    row = observations["machine_view"][0]
    row[...] = 7
    at = observations["meta"].ctypes.data
    del observations
    others = [envs.step(np.array([1, 2]))[0] for _ in range(8)]
    assert (row == 7).all()
    assert at not in {o["meta"].ctypes.data for o in others}
    # Observations outlive their environment.
    kept = others[-1]["machine_view"].copy()
    envs.close()
    del envs
    gc.collect()
    assert np.array_equal(others[-1]["machine_view"], kept)


def test_nothing_leaks():
    envs = SpatialVectorEnv(2, threads=2, **TOY)
    envs.reset(seed=0)
    reference = weakref.ref(envs)
    envs.close()
    del envs
    gc.collect()
    assert reference() is None

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    envs = SpatialVectorEnv(64, copy=True, **TOY)
    envs.reset(seed=0)
    actions = np.ones(64, dtype=np.int64)
    for t in range(600):
        envs.step(actions)
        if t == 100:
            before = resident()
    # 500 steps deliver 60 MB of observations.
    assert resident() - before < 8e6


def test_sub_environments_catch_up_to_be_asked():
    envs = SpatialVectorEnv(2, render_mode="ansi", order="load", **TOY)
    single = SpatialSchedulingEnv(order="load", render_mode="ansi", **TOY)
    envs.reset(seed=6)
    single.reset(seed=7)
    for t in range(8):
        action = 1 + t % 3
        envs.step(np.array([1, action]))
        single.step(action)
        assert envs.render()[1] == single.render()
        assert envs.call("schedule")[1] == single.schedule
        assert np.array_equal(envs.call("action_masks")[1], single.action_masks())
    assert envs.call("final_snapshot")[1].throughput == single.final_snapshot().throughput
    # Asking changed nothing.
    assert not envs.step(np.array([1, 1]))[2].any()


def test_other_threads_run_while_it_steps():
    envs = SpatialVectorEnv(8, machine="skylake-x-8n", threads=2)
    envs.reset(seed=0)
    actions = np.full(8, np.flatnonzero(envs.action_masks()[0])[0])
    resting = np.zeros(8, dtype=np.bool_)
    progress = []
    stop = threading.Event()

    def count():
        while not stop.is_set():
            progress.append(None)
            time.sleep(0)

    # Nobody is made to give the interpreter's lock away: whoever does, does it by himself.
    interval = sys.getswitchinterval()
    sys.setswitchinterval(100.0)
    counter = threading.Thread(target=count)
    try:
        counter.start()
        meanwhile = 0
        for _ in range(1000):
            # Steps take less than a busy host may need to begin another thread.
            if meanwhile:
                break
            envs.reset(seed=0)
            before = len(progress)
            for _ in range(20):
                envs._batch.step(actions, resting, copy=False)
            meanwhile = len(progress) - before
        assert meanwhile
    finally:
        stop.set()
        sys.setswitchinterval(interval)
        counter.join()


def test_a_training_loop_with_masks():
    """As in CleanRL: a storage of fixed size, episode statistics, and next-step resets."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    envs = gymnasium.make_vec("pmoss/toy-v0", num_envs=4, copy=False)
    envs = gymnasium.wrappers.vector.RecordEpisodeStatistics(envs)
    size = sum(np.prod(space.shape) for space in envs.single_observation_space.values())

    def flat(observations):
        return torch.cat([torch.tensor(o).float().flatten(1) for o in observations.values()], 1)

    policy = torch.nn.Linear(int(size), 8)
    optimiser = torch.optim.Adam(policy.parameters(), 1e-3)
    observations, infos = envs.reset(seed=1)
    returns = []
    for _ in range(2):
        losses = []
        for _ in range(18):
            logits = policy(flat(observations))
            logits[~torch.tensor(infos["action_mask"], dtype=torch.bool)] = -torch.inf
            choice = torch.distributions.Categorical(logits=logits)
            actions = choice.sample()
            observations, rewards, _, _, infos = envs.step(actions.numpy())
            assert not infos["illegal_actions"].any()
            losses.append(-(choice.log_prob(actions) * torch.tensor(rewards)).mean())
            if "episode" in infos:
                returns.append(infos["episode"]["r"][infos["_episode"]])
        optimiser.zero_grad()
        torch.stack(losses).sum().backward()
        optimiser.step()
    assert len(returns) == 4
    gain = infos["throughput"] - infos["incumbent_throughput"]
    assert np.isfinite(np.concatenate(returns)).all()
    assert np.isfinite(gain).all()
