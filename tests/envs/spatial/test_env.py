from __future__ import annotations

import itertools
import json
import logging
import os
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as check_env_for_sb3

from pmoss_env.backends.isolated import IsolatedBackend
from pmoss_env.envs.spatial import SpatialSchedulingEnv
from pmoss_env.envs.spatial.env import INFO_KEYS
from pmoss_env.errors import (
    DescriptionError,
    IllegalActionError,
    ScheduleError,
    UnknownNameError,
    UnsupportedError,
)
from pmoss_env.registration import environments, register_environments
from pmoss_env.types import COUNTERS, Schedule
from pmoss_env.workloads import load_workload, workload_names

TOY = {"machine": "toy", "slices": 8}
IDS = sorted(environments())


def play(env, seed=0, actions=None, options=None):
    """Plays an episode with seeded legal actions; returns what reset and step gave."""
    rng = np.random.default_rng(seed)
    observation, info = env.reset(seed=seed, options=options)
    trace = [(observation, 0.0, False, info)]
    while not trace[-1][2]:
        legal = np.flatnonzero(trace[-1][3]["action_mask"])
        action = rng.choice(legal) if actions is None else actions[len(trace) - 1]
        observation, reward, terminated, truncated, info = env.step(action)
        assert truncated is False
        trace.append((observation, reward, terminated, info))
    return trace


def total(trace):
    return sum(reward for _, reward, _, _ in trace)


def bits(trace):
    """Everything an episode gave, as bytes."""
    out = b""
    for observation, reward, terminated, info in trace:
        for values in (observation, info):
            for key in sorted(values):
                out += key.encode() + np.asarray(values[key]).tobytes()
        out += np.float64(reward).tobytes() + bytes([terminated])
    return out


@pytest.mark.parametrize("name", IDS)
def test_gymnasium_accepts_every_id(name):
    env = gymnasium.make(name)
    assert env.spec.max_episode_steps is None
    restored = gymnasium.envs.registration.EnvSpec.from_json(env.spec.to_json())
    assert restored.kwargs == environments()[name]
    env.close()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["pmoss/toy-v0", "pmoss/SpatialScheduling-v0"])
@pytest.mark.parametrize("observation", ["full", "complete"])
def test_gymnasiums_checker_is_content(name, observation):
    env = gymnasium.make(name, observation=observation)
    check_env(env.unwrapped, skip_render_check=True)


@pytest.mark.parametrize("name", ["pmoss/toy-v0", "pmoss/milan-nps4-btree-scans-v0"])
@pytest.mark.parametrize("observation", ["full", "complete"])
def test_stable_baselines3_checker_is_content(name, observation):
    env = gymnasium.make(name, observation=observation)
    check_env_for_sb3(env.unwrapped, warn=False)


def test_registering_again_changes_nothing():
    before = dict(gymnasium.registry)
    register_environments()
    assert dict(gymnasium.registry) == before


def test_the_suite_has_both_machines_and_every_workload():
    suite = {name for name in IDS if "-btree-" in name or "-rtree-" in name}
    assert "pmoss/skylake-x-8n-btree-ycsb-a-v0" in suite
    assert "pmoss/skylake-x-8n-rtree-ranges-v0" in suite
    assert len(suite) == 2 * len(workload_names())
    for name in suite:
        kwargs = environments()[name]
        assert load_workload(kwargs["workload"]).index == kwargs["index"]
        assert f"-{kwargs['index']}-" in name


@pytest.mark.parametrize("load", ["closed", "saturated", "open:3"])
@pytest.mark.parametrize("interference", ["none", "busy_core"])
@pytest.mark.parametrize("order", ["index", "load"])
def test_same_seed_same_bits(load, interference, order):
    kwargs = {**TOY, "load": load, "interference": interference, "order": order, "noise": 1.0}
    env = SpatialSchedulingEnv(**kwargs)
    first = bits(play(env, 3))
    play(env, 4)
    assert bits(play(env, 3)) == first
    assert bits(play(SpatialSchedulingEnv(**kwargs), 3)) == first
    assert bits(play(env, 4)) != first


CHILD = """
import hashlib, sys
import gymnasium, numpy as np, pmoss_env
env = gymnasium.make("pmoss/SpatialScheduling-v0", slices=64, interference="busy_core", noise=0.5)
digest = hashlib.sha256()
observation, info = env.reset(seed=11)
done = False
while not done:
    for values in (observation, info):
        for key in sorted(values):
            digest.update(np.asarray(values[key]).tobytes())
    action = np.flatnonzero(info["action_mask"])[info["slice"] * 7 % 56]
    observation, reward, done, _, info = env.step(action)
    digest.update(np.float64(reward).tobytes())
print(digest.hexdigest())
"""


def test_same_bits_in_every_process():
    digests = set()
    for hash_seed in ("0", "1"):
        child = subprocess.run(
            [sys.executable, "-c", CHILD],
            env={
                **os.environ,
                "PYTHONHASHSEED": hash_seed,
                "PYTHONPATH": os.pathsep.join(sys.path),
            },
            capture_output=True,
            text=True,
            check=True,
        )
        digests.add(child.stdout)
    assert len(digests) == 1


@pytest.mark.parametrize("load", ["closed", "saturated"])
def test_the_return_of_improvement_is_the_gain_over_the_incumbent(load):
    trace = play(SpatialSchedulingEnv(slices=64, load=load, interference="busy_core"))
    info = trace[-1][3]
    gain = info["throughput"] - info["incumbent_throughput"]
    assert total(trace) == pytest.approx(gain, abs=1e-9)
    assert abs(gain) > 0.01
    assert all(
        reward == after["throughput"] - before["throughput"]
        for (_, _, _, before), (_, reward, _, after) in itertools.pairwise(trace)
    )


@pytest.mark.parametrize("reward", ["slice", "terminal"])
def test_other_rewards_pay_the_final_throughput_at_the_end(reward):
    trace = play(SpatialSchedulingEnv(**TOY, reward=reward))
    assert [r for _, r, _, _ in trace[:-1]] == [0.0] * 8
    assert trace[-1][1] == trace[-1][3]["throughput"] > 0


@pytest.mark.parametrize("order", ["index", "load"])
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_slice_shares_are_in_step_order_and_sum_to_the_throughput(order, noise):
    env = SpatialSchedulingEnv(slices=64, order=order, noise=noise)
    trace = play(env)
    assert not any(info["slice_throughput"].any() for _, _, _, info in trace[:-1])
    info = trace[-1][3]
    assert info["slice_throughput"].sum() == pytest.approx(info["throughput"])
    shares = env.final_snapshot().slice_throughput
    assert np.array_equal(info["slice_throughput"], shares[env.order])
    assert env.final_snapshot().throughput == info["throughput"]
    if order == "load" and noise == 0:
        assert not np.array_equal(env.order, np.arange(64))
        queries = env.incumbent_snapshot.counter("queries")
        assert np.array_equal(env.order, np.argsort(-queries, kind="stable"))


def test_every_state_is_a_full_schedule_with_the_throughput_that_info_says():
    env = SpatialSchedulingEnv(slices=64, interference="busy_core", order="load")
    env.reset(seed=5)
    backend = env.session.new_backend()
    rng = np.random.default_rng(5)
    done = False
    step = 0
    core = -1
    while not done:
        placed = env.order[:step]
        rest = env.order[step:]
        schedule = env.schedule
        assert np.array_equal(schedule.cores[rest], env.incumbent.cores[rest])
        if step:
            assert schedule.cores[placed[-1]] == core
        tile = rng.choice(np.flatnonzero(env.action_masks()))
        core = env.machine.core_of_tile[tile]
        _, _, done, _, info = env.step(tile)
        step += 1
        measured = backend.measure(env.schedule, seed=0).throughput
        assert info["throughput"] == measured
    assert env.final_snapshot().throughput == measured
    assert np.array_equal(env.schedule.nodes, env.machine.node_of_core[env.schedule.cores])


@pytest.mark.parametrize("constraints", [None, {"max_slices_per_core": 2}])
def test_the_three_masks_agree_at_every_step(constraints):
    env = SpatialSchedulingEnv(**TOY, constraints=constraints)
    assert np.array_equal(env.action_masks(), env.machine.worker_tiles)
    env.reset(seed=0)
    counts = np.zeros(8, dtype=int)
    for observation, _, _, info in play(env):
        if info["tile"] >= 0:
            counts[info["tile"]] += 1
        mask = info["action_mask"]
        assert mask.dtype == np.int8
        assert mask.shape == (8,)
        assert np.array_equal(observation["position_mask"].ravel(), mask)
        limit = np.inf if constraints is None else 2
        assert np.array_equal(mask, env.machine.worker_tiles & (counts < limit))
    assert env.action_masks().dtype == np.bool_
    assert np.array_equal(env.action_masks(), mask)
    assert counts.sum() == 8


def test_info_is_alike_at_reset_and_step():
    trace = play(SpatialSchedulingEnv(**TOY))
    kinds = [
        {key: (type(value), np.shape(value)) for key, value in info.items()}
        for _, _, _, info in trace
    ]
    assert set(kinds[0]) == set(INFO_KEYS)
    assert all(kind == kinds[0] for kind in kinds)
    assert [info["slice"] for _, _, _, info in trace] == list(range(9))
    arrays = [info["action_mask"] for _, _, _, info in trace]
    assert not any(np.shares_memory(a, b) for a, b in itertools.pairwise(arrays))


def test_an_illegal_action_goes_to_the_nearest_legal_tile():
    env = SpatialSchedulingEnv(
        machine="skylake-x-8n", slices=56, constraints={"max_slices_per_core": 1}
    )
    env.reset(seed=0)
    # Node n is row n, tile 12 n + local; workers are locals 3 to 9; two nodes make a socket.
    expected = {0: 3, 11: 9, 1: 4, 10: 8, 2: 5, 12 * 3: 12 * 3 + 3}
    for action, tile in expected.items():
        _, _, _, _, info = env.step(action)
        assert info["tile"] == tile, action
    assert info["illegal_actions"] == len(expected)
    # With node 0 full, the other node of the socket is next; with both full, another socket.
    for tile in (6, 7):
        env.step(tile)
    _, _, _, _, info = env.step(5)
    assert info["tile"] == 12 + 5
    for tile in (3, 4, 6, 7, 8, 9):
        env.step(12 + tile)
    _, _, _, _, info = env.step(5)
    assert info["tile"] == 24 + 5
    assert env.schedule.cores[info["slice"] - 1] == 24 + 5
    # Rows 1 and 3 are as near to row 2, but row 3 is on its socket.
    env.reset(seed=0)
    for tile in range(3, 10):
        env.step(24 + tile)
    _, _, _, _, info = env.step(24 + 5)
    assert info["tile"] == 36 + 5
    # Two tiles away on its socket comes before one tile away on another.
    _, _, _, _, info = env.step(24 + 5)
    assert info["tile"] == 36 + 4


def test_terminate_ends_the_episode_where_it_stands():
    env = SpatialSchedulingEnv(**TOY, on_illegal="terminate", reward="terminal")
    env.reset(seed=0)
    _, reward, terminated, _, before = env.step(1)
    assert not terminated
    observation, reward, terminated, truncated, info = env.step(0)
    assert (reward, terminated, truncated) == (0.0, True, False)
    assert info["illegal_actions"] == 1
    assert info["slice"] == before["slice"] == 1
    assert info["throughput"] == before["throughput"] == env.final_snapshot().throughput
    assert info["slice_throughput"].sum() == pytest.approx(info["throughput"])
    assert env.observation_space.contains(observation)
    with pytest.raises(ResetNeeded):
        env.step(1)


def test_raise_names_the_action_and_leaves_the_episode_as_it_was():
    env = SpatialSchedulingEnv(**TOY, on_illegal="raise")
    env.reset(seed=0)
    with pytest.raises(IllegalActionError, match="action 4"):
        env.step(4)
    assert len(play_on(env)) == 8


def play_on(env):
    steps = []
    done = False
    while not done:
        _, _, done, _, info = env.step(1)
        steps.append(info)
    return steps


@pytest.mark.parametrize("on_illegal", ["remap", "terminate", "raise"])
@pytest.mark.parametrize("action", [-1, 8, 1.5, None, "1", np.array([1, 2])])
def test_what_is_no_tile_is_always_an_error(on_illegal, action):
    env = SpatialSchedulingEnv(**TOY, on_illegal=on_illegal)
    env.reset(seed=0)
    with pytest.raises(IllegalActionError):
        env.step(action)
    assert env.step(np.int64(1))[4]["tile"] == 1


def test_the_end():
    env = SpatialSchedulingEnv(**TOY)
    trace = play(env)
    assert len(trace) == 9
    observation = trace[-1][0]
    assert env.observation_space.contains(observation)
    assert observation["slice"] == 1
    assert not observation["slice_view"].any()
    with pytest.raises(ResetNeeded):
        env.step(1)
    env.reset()
    env.step(1)


def test_what_needs_an_episode_says_so():
    env = SpatialSchedulingEnv(**TOY, render_mode="ansi")
    for ask in (
        lambda: env.step(1),
        lambda: env.schedule,
        lambda: env.incumbent,
        lambda: env.incumbent_snapshot,
        lambda: env.instance,
        env.final_snapshot,
        env.render,
        env.session.new_backend,
    ):
        with pytest.raises(ResetNeeded):
            ask()
    env.reset(seed=0)
    with pytest.raises(ScheduleError, match="0 of 8"):
        env.final_snapshot()


def test_a_given_incumbent_keeps_the_rest_of_the_context():
    env = SpatialSchedulingEnv(**TOY, interference="busy_core")
    env.reset(seed=9)
    instance = env.instance
    cores = [1, 1, 1, 5, 5, 5, 6, 7]
    _, info = env.reset(seed=9, options={"incumbent": cores})
    assert env.instance == instance
    assert np.array_equal(env.incumbent.cores, cores)
    # Data of an unplaced slice stay where the incumbent has them, even on another node.
    remote = Schedule(cores, 1 - env.machine.node_of_core[np.array(cores)])
    _, far = env.reset(seed=9, options={"incumbent": remote})
    assert far["throughput"] < info["throughput"]
    env.step(1)
    assert list(env.schedule.nodes) == [0, *remote.nodes[1:]]
    actions = [1, 1, 1, 5, 5, 5, 6, 7]
    trace = play(env, 9, actions, options={"incumbent": remote})
    assert trace[-1][3]["throughput"] == info["throughput"]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"incumbents": [1]}, UnknownNameError, "incumbents"),
        ({"incumbent": [1, 2]}, ScheduleError, "places 2 slices"),
        ({"incumbent": Schedule([1] * 8, [0] * 8, "any")}, ScheduleError, "routing 'any'"),
        ({"incumbent": [0] * 8}, ScheduleError, "core 0"),
        ({"incumbent": [99] * 8}, ScheduleError, "core 99"),
        ({"incumbent": [1.5] * 8}, ScheduleError, "core of each slice"),
        ({"incumbent": "grouped"}, ScheduleError, "core of each slice"),
    ],
)
def test_bad_options_are_refused(options, error, words):
    with pytest.raises(error, match=words):
        SpatialSchedulingEnv(**TOY).reset(seed=0, options=options)


def test_the_context_is_drawn_anew_unless_it_is_fixed():
    drawn, fixed = SpatialSchedulingEnv(**TOY), SpatialSchedulingEnv(**TOY, workload_seed=7)
    seeds, incumbents = set(), set()
    for seed in range(12):
        drawn.reset(seed=seed)
        fixed.reset(seed=seed)
        seeds.add(drawn.instance.workload_seed)
        incumbents.add(drawn.incumbent)
        assert fixed.instance.workload_seed == 7
        assert fixed.incumbent == drawn.incumbent
    assert len(seeds) == 12
    assert len(incumbents) > 4
    grouped = SpatialSchedulingEnv(**TOY, incumbent="grouped")
    seen = set()
    for seed in range(12):
        grouped.reset(seed=seed)
        seen.add(grouped.incumbent)
        # Still grouped: adjacent slices share a node, and each worker has as many as before.
        assert len(set(grouped.incumbent.nodes[:4])) == len(set(grouped.incumbent.nodes[4:])) == 1
        assert sorted(np.bincount(grouped.incumbent.cores, minlength=8)) == [0, 0, 1, 1, 1, 1, 2, 2]
    assert len(seen) > 6


def test_interference_that_the_backend_cannot_run_is_refused_when_the_env_is_made(monkeypatch):
    monkeypatch.setattr(IsolatedBackend, "co_tenant_families", ("busy_core",))
    with pytest.raises(UnsupportedError, match="'memory_stream': the backend 'hardware' runs only"):
        SpatialSchedulingEnv(machine="host", backend="hardware", interference="memory_stream")


def test_co_tenants_show_in_the_counters_only():
    quiet, busy = (
        SpatialSchedulingEnv(**TOY, incumbent="grouped", interference=family)
        for family in ("none", "busy_core")
    )
    one, info = quiet.reset(seed=1, options={"incumbent": [1, 2, 3, 5, 6, 7, 1, 2]})
    other, slower = busy.reset(seed=1, options={"incumbent": [1, 2, 3, 5, 6, 7, 1, 2]})
    assert quiet.instance.co_tenants == ()
    assert busy.instance.co_tenants
    assert not np.array_equal(one["incumbent_view"], other["incumbent_view"])
    assert slower["throughput"] < info["throughput"]
    assert set(info) == set(slower)


def test_noise_changes_readings_and_not_the_context():
    plain, noisy = (SpatialSchedulingEnv(**TOY, noise=noise) for noise in (0.0, 1.0))
    one, other = play(plain, 2), play(noisy, 2)
    assert plain.incumbent == noisy.incumbent
    assert plain.instance == noisy.instance
    ratio = [b[3]["throughput"] / a[3]["throughput"] for a, b in zip(one, other, strict=True)]
    assert all(0.9 < r < 1.1 for r in ratio)
    assert len(set(ratio)) == 9
    assert not np.array_equal(one[0][0]["slice_view"], other[0][0]["slice_view"])
    gain = other[-1][3]["throughput"] - other[0][3]["throughput"]
    assert total(other) == pytest.approx(gain)


BAD = [
    ("machine", "skylake", UnknownNameError),
    ("machine", None, DescriptionError),
    ("index", "hash", UnknownNameError),
    ("workload", "ycsb-z", UnknownNameError),
    ("slices", 0, DescriptionError),
    ("slices", True, DescriptionError),
    ("slices", np.int64(8), DescriptionError),
    ("slices", 65537, DescriptionError),
    ("backend", "quantum", UnknownNameError),
    ("load", "opened", UnknownNameError),
    ("load", "open:-1", UnknownNameError),
    ("interference", "earthquake", UnknownNameError),
    ("observation", "half", UnknownNameError),
    ("reward", "latency", UnknownNameError),
    ("incumbent", "lpt", UnknownNameError),
    ("order", "random", UnknownNameError),
    ("order", ["index"], UnknownNameError),
    ("workload_seed", -1, DescriptionError),
    ("workload_seed", 2**64, DescriptionError),
    ("workload_seed", np.uint32(1), DescriptionError),
    ("noise", -0.1, DescriptionError),
    ("noise", float("nan"), DescriptionError),
    ("noise", float("inf"), DescriptionError),
    ("noise", "1", DescriptionError),
    ("on_illegal", "ignore", UnknownNameError),
    ("constraints", {"max_slices_per_core": 1}, ScheduleError),
    ("constraints", {"stay_near": 1}, UnknownNameError),
    ("constraints", [1], DescriptionError),
    ("constraints", {"max_slices_per_core": np.int64(2)}, DescriptionError),
    ("backend_options", {"seconds": 1}, UnsupportedError),
    ("counters", "none", UnknownNameError),
    ("backend_options", {"seconds": object()}, DescriptionError),
    ("measure_every", 0, DescriptionError),
    ("render_mode", "human", UnknownNameError),
]


@pytest.mark.parametrize(("name", "value", "error"), BAD)
def test_bad_arguments_are_refused_by_name(name, value, error):
    with pytest.raises(error) as caught:
        SpatialSchedulingEnv(**{**TOY, name: value})
    if not (isinstance(value, dict) or name == "load"):
        assert repr(value) in str(caught.value) or str(value) in str(caught.value)


def test_improvement_on_hardware_needs_to_know_how_often():
    with pytest.raises(UnsupportedError, match="measure_every"):
        SpatialSchedulingEnv(**TOY, backend="hardware", reward="improvement")


def test_a_backend_that_must_measure_pays_at_the_end(measuring):
    env = SpatialSchedulingEnv(**TOY)
    trace = play(env)
    assert [r for _, r, _, _ in trace[:-1]] == [0.0] * 8
    assert trace[-1][1] == trace[-1][3]["throughput"]
    assert len(env.backend.measured) == 2
    info = trace[-1][3]
    assert all(t[3]["throughput"] == info["incumbent_throughput"] for t in trace[:-1])


@pytest.mark.parametrize(("every", "measurements"), [(None, 9), (3, 4), (8, 2), (100, 2)])
def test_improvement_by_measuring(measuring, caplog, every, measurements):
    with caplog.at_level(logging.WARNING):
        env = SpatialSchedulingEnv(**TOY, reward="improvement", measure_every=every)
    assert f"measures {measurements} times" in caplog.text
    trace = play(env)
    assert len(env.backend.measured) == measurements
    info = trace[-1][3]
    assert total(trace) == pytest.approx(info["throughput"] - info["incumbent_throughput"])
    paid = [t for t, (_, reward, _, _) in enumerate(trace) if reward]
    assert all(t == 8 or t % (every or 1) == 0 for t in paid)


def test_a_terminal_reward_may_be_measured_on_the_way(measuring):
    env = SpatialSchedulingEnv(**TOY, measure_every=3)
    trace = play(env)
    assert len(env.backend.measured) == 4
    assert [reward for _, reward, _, _ in trace[:-1]] == [0.0] * 8
    assert len({info["throughput"] for _, _, _, info in trace}) == 4


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_measuring_seldom_changes_what_is_read_and_nothing_else(noise):
    actions = [1, 2, 2, 6, 7, 1, 5, 3]
    always = play(SpatialSchedulingEnv(**TOY, noise=noise), 3, actions)
    seldom = play(SpatialSchedulingEnv(**TOY, noise=noise, measure_every=3), 3, actions)
    for t, (one, other) in enumerate(zip(always, seldom, strict=True)):
        assert all(one[0][key].tobytes() == other[0][key].tobytes() for key in one[0])
        latest = t if t == 8 else t - t % 3
        assert other[3]["throughput"] == always[latest][3]["throughput"]
    assert total(seldom) == pytest.approx(total(always))


def test_close_closes_the_backend_and_repeats(measuring):
    env = SpatialSchedulingEnv(**TOY)
    env.reset(seed=0)
    env.close()
    env.close()
    assert env.backend.closed == 2
    with pytest.raises(ResetNeeded):
        env.step(1)


def test_a_new_backend_leaves_the_episode_alone():
    env = SpatialSchedulingEnv(**TOY, interference="busy_core")
    reference = bits(play(env, 6, [1] * 8))
    env.reset(seed=6)
    trace = [None]
    for _ in range(8):
        backend = env.session.new_backend()
        assert (
            backend.measure(env.incumbent, seed=0).throughput == env.incumbent_snapshot.throughput
        )
        backend.place(env.machine.local_schedule([7] * 8))
        trace.append(env.step(1))
    assert bits(play(env, 6, [1] * 8)) == reference
    assert trace[-1][4]["throughput"] == env.final_snapshot().throughput


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_gymnasium_vectorises_it(mode):
    envs = gymnasium.make_vec("pmoss/toy-v0", num_envs=2, vectorization_mode=mode)
    single = gymnasium.make("pmoss/toy-v0")
    observations, infos = envs.reset(seed=4)
    expected, info = single.reset(seed=5)
    for t in range(8):
        assert infos["action_mask"].shape == (2, 8)
        assert all(np.array_equal(observations[key][1], expected[key]) for key in expected)
        assert infos["throughput"][1] == info["throughput"]
        action = 1 + t % 3
        observations, rewards, terminated, truncated, infos = envs.step(np.array([1, action]))
        expected, reward, _, _, info = single.step(action)
        assert rewards[1] == pytest.approx(reward, abs=1e-12)
        assert list(terminated) == [t == 7] * 2
        assert not truncated.any()
    envs.close()


def test_kwargs_are_plain_json():
    kwargs = {
        **TOY,
        "interference": "busy_core",
        "noise": 0.5,
        "constraints": {"max_slices_per_core": 3},
        "backend_options": {},
    }
    env = gymnasium.make("pmoss/SpatialScheduling-v0", **kwargs)
    spec = gymnasium.envs.registration.EnvSpec.from_json(env.spec.to_json())
    assert json.loads(json.dumps(spec.kwargs)) == kwargs
    assert bits(play(gymnasium.make(spec).unwrapped)) == bits(play(env.unwrapped))


def brute_force(slices):
    env = SpatialSchedulingEnv(machine="toy", slices=slices, workload_seed=1)
    env.reset(seed=0)
    backend = env.session.new_backend()
    throughputs = [
        backend.place(env.machine.local_schedule(cores))
        for cores in itertools.product(env.machine.workers.tolist(), repeat=slices)
    ]
    return backend, max(throughputs), min(throughputs)


def test_enumeration_agrees_with_brute_force():
    backend, best, worst = brute_force(4)
    schedule, throughput = backend.best_by_enumeration()
    assert throughput == best > worst
    assert backend.place(schedule) == best


@pytest.mark.heavy
def test_the_toys_optimum():
    env = gymnasium.make("pmoss/toy-v0").unwrapped
    env.reset(seed=0)
    schedule, throughput = env.session.new_backend().best_by_enumeration()
    trace = play(env, 0, env.machine.tile_of_core[schedule.cores])
    assert trace[-1][3]["throughput"] == throughput == pytest.approx(7.1207629827)


def test_counters_of_an_idle_slice_do_not_fall_below_zero():
    env = SpatialSchedulingEnv(machine="skylake-x-8n", workload="hot-range")
    observation, _ = env.reset(seed=123)
    assert observation in env.observation_space


def test_an_episode_can_be_undone():
    env = gymnasium.make("pmoss/toy-v0", noise=1.0).unwrapped
    with pytest.raises(ResetNeeded):
        env.restore()
    env.reset(seed=4)
    before, schedule = env.incumbent_snapshot, env.incumbent
    for _ in range(3):
        env.step(int(np.flatnonzero(env.action_masks())[0]))
    again = env.restore()
    assert again.throughput == before.throughput
    np.testing.assert_array_equal(again.slice_counters, before.slice_counters)
    assert env.schedule == schedule
    with pytest.raises(ResetNeeded):
        env.step(int(np.flatnonzero(env.action_masks())[0]))


def test_without_a_pmu_only_software_counters_are_seen():
    bare, virtual = (SpatialSchedulingEnv(**TOY, counters=c) for c in ("all", "software"))
    seen, shown = bare.reset(seed=3)[0], virtual.reset(seed=3)[0]
    software = np.array([counter.source != "hardware" for counter in COUNTERS])
    assert 0 < software.sum() < software.size
    assert np.array_equal(shown["slice_view"], seen["slice_view"] * software)
    assert np.array_equal(shown["incumbent_view"], seen["incumbent_view"] * software)
    # The facts of the processor are known all the same.
    assert not shown["meta"][:-3].any() and seen["meta"][:-3].any()
    assert np.array_equal(shown["meta"][-3:], seen["meta"][-3:])
    snapshot = virtual.incumbent_snapshot
    available = bare.incumbent_snapshot.counters_available
    assert np.array_equal(snapshot.counters_available, available & software)
    assert snapshot.throughput == bare.incumbent_snapshot.throughput
    finals = []
    for env in (bare, virtual):
        for _ in range(env.slices):
            info = env.step(int(env.action_masks().argmax()))[-1]
        finals.append(info["throughput"])
    assert finals[0] == finals[1]
    assert not virtual.final_snapshot().offcore_available.any()
    assert bare.final_snapshot().offcore_available.any()
