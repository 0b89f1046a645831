"""Vector environments return the bits of Gymnasium's own and keep their memory in order."""

import gc
import sys
import threading
import time
import weakref

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from pmoss_env.envs.continual.vector import ContinualVectorEnv
from pmoss_env.envs.spatial import SpatialVectorEnv
from pmoss_env.errors import (
    DescriptionError,
    IllegalActionError,
    PmossError,
    ScheduleError,
    UnknownNameError,
    UnsupportedError,
)
from tests.envs.episodes import CONTINUAL, DRIFTING, SPATIAL, TOY, alike

#: Short episodes, so that several end.
SHORT = {SPATIAL: TOY, CONTINUAL: {**TOY, "epochs": 3, "moves_per_epoch": 2}}
MAKE = {SPATIAL: SpatialVectorEnv, CONTINUAL: ContinualVectorEnv}
#: A legal action of each kind: on core 1, and no further move in this epoch.
FIRST = {SPATIAL: 1, CONTINUAL: [8, 0]}
FULL, TWO = {"node_memory_gib": [0.1, 0.6]}, {"max_slices_per_core": 2}


def pair(name, mode="NextStep", num_envs=3, copy=True, threads=1, **options):
    """A native vector environment and Gymnasium's synchronous one."""
    options = {**SHORT[name], **options}
    native = gymnasium.make_vec(
        name, num_envs=num_envs, autoreset_mode=mode, copy=copy, threads=threads, **options
    )
    synchronous = gymnasium.make_vec(
        name,
        num_envs=num_envs,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": mode},
        **options,
    )
    assert isinstance(native.unwrapped, MAKE[name])
    assert native.observation_space == synchronous.observation_space
    assert native.action_space == synchronous.action_space
    assert native.metadata["autoreset_mode"] == synchronous.metadata["autoreset_mode"]
    return native, synchronous


def follow(native, synchronous, seed=9, steps=16):
    """Plays both with the same actions, masked ones among them; how many episodes ended."""
    space = native.single_action_space
    returned = [native.reset(seed=seed), synchronous.reset(seed=seed)]
    rng, ended = np.random.default_rng(0), 0
    for _ in range(steps):
        alike(*returned)
        observations, *_, infos = returned[0]
        assert observations in native.observation_space
        assert np.array_equal(native.unwrapped.action_masks(), infos["action_mask"] > 0)
        actions = rng.integers(
            getattr(space, "nvec", space.n if not space.shape else 0),
            size=(native.num_envs, *space.shape),
        )
        returned = [native.step(actions), synchronous.step(actions)]
        ended += int((returned[0][2] | returned[0][3]).sum())
    alike(*returned)
    native.close()
    return ended


SPATIAL_VARIANTS = [
    {"observation": "paper"},
    {"observation": "complete"},
    {"observation": "compact"},
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
    {"constraints": TWO},
    {"on_illegal": "terminate"},
    {"on_illegal": "terminate", "noise": 1.0, "reward": "terminal"},
    {"on_illegal": "terminate", "measure_every": 2},
    {"incumbent": "random", "workload_seed": 5},
    {"order": "load", "noise": 0.5, "interference": "busy_core", "constraints": TWO},
    {"counters": "software"},
    {"counters": "arm"},
    {"deviation": 0.3},
    {"actions": "core_node", "observation": "complete"},
    {"actions": "core_node", "observation": "complete", "constraints": FULL},
    {"actions": "core_node", "observation": "compact", "constraints": FULL},
]
VARIANTS = [(SPATIAL, options) for options in SPATIAL_VARIANTS]
VARIANTS += [(CONTINUAL, options) for options in DRIFTING]


@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=str)
def test_every_row_has_the_bits_of_a_single_environment(name, options):
    assert follow(*pair(name, **options), steps=30) >= 9


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
@pytest.mark.parametrize(("num_envs", "threads"), [(5, 3), (2, 8)])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        (SPATIAL, {"noise": 1.0}),
        (SPATIAL, {"on_illegal": "terminate"}),
        (SPATIAL, {"actions": "core_node", "constraints": FULL}),
        (CONTINUAL, {"counters": "software"}),
    ],
    ids=str,
)
def test_number_threads_and_autoreset_change_no_bit(name, options, num_envs, threads, mode):
    vectors = pair(name, mode, num_envs, threads=threads, copy=threads > 3, **options)
    assert follow(*vectors, steps=20) >= 2 * num_envs


def test_seeds_decide_and_generators_go_on():
    left, right = (SpatialVectorEnv(2, **TOY) for _ in range(2))
    first, _ = left.reset(seed=[4, None])
    again, _ = right.reset(seed=np.int64(4))
    assert np.array_equal(first["incumbent_view"][0], again["incumbent_view"][0])
    assert not np.array_equal(first["incumbent_view"][1], again["incumbent_view"][1])
    left.reset(seed=3)
    right.reset(seed=3)
    for _ in range(2):
        alike(left.reset()[0], right.reset()[0])


@pytest.mark.parametrize("options", [{}, {"deviation": 0.2}, {"interference": "all"}], ids=str)
def test_next_episodes_are_prepared_beside_threads_alone_and_change_no_bit(options):
    vectors = [SpatialVectorEnv(3, threads=n, **{**TOY, **options}) for n in (1, 2)]

    def reset(**given):
        alike(*(envs.reset(**given)[0] for envs in vectors))
        actions = np.ones(3, dtype=np.int64)
        alike(*(envs.step(actions)[0] for envs in vectors))
        sessions = [env.session for envs in vectors for env in envs.sub_environments()]
        return [session.is_prepared for session in sessions]

    prepared = "deviation" not in options
    assert reset(seed=1) == [False] * 6
    assert reset() == [False] * 3 + [prepared] * 3
    # What was drawn ahead is right no more: other seeds, another incumbent, another draw.
    assert reset(seed=2) == [False] * 6
    assert reset(options={"incumbent": [1] * TOY["slices"]}) == [False] * 6
    for envs in vectors:
        envs.sub_environments()[1].np_random.integers(9)
    assert reset() == [False] * 3 + [prepared, False, prepared]
    # Where every episode is seeded, none is prepared.
    assert [any(reset(**given)) for given in ({"seed": 3}, {"seed": 4}, {})] == [False] * 3
    assert any(reset()) == prepared
    for envs in vectors:
        envs.close()


def test_what_fails_as_episodes_start_is_typed_and_leaves_none_running():
    envs = SpatialVectorEnv(4, threads=3, **TOY)
    with pytest.raises(ScheduleError, match="core 99"):
        envs.reset(seed=0, options={"incumbent": [99] * TOY["slices"]})
    with pytest.raises(ResetNeeded):
        envs.step(np.zeros(4, dtype=np.int64))
    observations, _ = envs.reset(seed=0)
    single = SpatialVectorEnv(4, **TOY).reset(seed=0)[0]
    assert all(np.array_equal(observations[key], single[key]) for key in single)
    envs.close()


def test_an_incumbent_can_be_given_to_all():
    envs = SpatialVectorEnv(2, **TOY)
    _, infos = envs.reset(seed=0, options={"incumbent": [1] * 8})
    assert infos["incumbent_throughput"][0] == infos["throughput"][0]
    assert all((schedule.cores == 1).all() for schedule in envs.call("incumbent"))
    with pytest.raises(UnknownNameError, match="reset_mask"):
        envs.reset(options={"reset_mask": np.array([True, False])})


@pytest.mark.parametrize("name", MAKE)
def test_copies_are_fresh_and_the_others_are_the_same(name):
    actions = np.array([FIRST[name]] * 2)
    fresh, shared = (MAKE[name](2, copy=copy, **SHORT[name]) for copy in (True, False))
    first, _ = fresh.reset(seed=0)
    kept = {key: rows.copy() for key, rows in first.items()}
    held = [first]
    for _ in range(12):
        observations, *_ = fresh.step(actions)
        for rows in observations.values():
            assert not any(np.shares_memory(rows, old) for o in held for old in o.values())
            rows[...] = 1  # what a user writes into it changes nothing
        held.append(observations)
    alike(first, kept)

    first, _ = shared.reset(seed=0)
    for _ in range(12):
        observations, *_ = shared.step(actions)
        assert all(np.shares_memory(observations[key], first[key]) for key in first)
        assert not any(rows.flags.writeable for rows in observations.values())


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
    for t in range(300):
        envs.step(actions)
        if t == 100:
            before = resident()
    # 200 steps deliver 24 MB of observations.
    assert resident() - before < 8e6


@pytest.mark.parametrize("name", MAKE)
def test_sub_environments_are_views_of_their_rows(name):
    options = {**SHORT[name], "render_mode": "ansi"}
    envs, single = MAKE[name](2, **options), gymnasium.make(name, **options).unwrapped
    envs.reset(seed=6)
    single.reset(seed=7)
    for _ in range(2):
        envs.step(np.array([FIRST[name]] * 2))
        single.step(FIRST[name])
        assert envs.render()[1] == single.render()
        assert np.array_equal(envs.call("action_masks")[1], single.action_masks())
    if name == CONTINUAL:
        assert envs.sub_environments()[1].session.timeline == single.session.timeline
        return
    for _ in range(6):
        envs.step(np.array([1, 2]))
        single.step(2)
        assert envs.call("schedule")[1] == single.schedule
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

    # No thread has to release the interpreter's lock within 100 s: the step does so itself.
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


BAD_ACTIONS = [
    (SPATIAL, [1, 8], "action 8 of sub-environment 1"),
    (SPATIAL, [-1, 1], "action -1 of sub-environment 0"),
    (SPATIAL, [1, 4], "action 4 of sub-environment 1"),
    (SPATIAL, [1], "shape"),
    (SPATIAL, [[1, 1]], "shape"),
    (SPATIAL, [1.0, 1.0], "float64"),
    (SPATIAL, 1, "shape"),
    (CONTINUAL, [8, 0], r"actions of shape \(2,\) .* \(2, 2\) whole numbers"),
    (CONTINUAL, [[0.0, 1.0], [0.0, 1.0]], "float64"),
    (CONTINUAL, [[8, 0], [9, 0]], "slice 9 of sub-environment 1: must be from 0 to 8"),
    (CONTINUAL, [[-1, 0], [8, 0]], "slice -1 of sub-environment 0"),
    (CONTINUAL, [[8, 0], [8, 8]], "tile 8 of sub-environment 1: must be from 0 to 7"),
    (CONTINUAL, [[8, 0], [0, 4]], "slice 0 to tile 4: the tile is no worker"),
]


@pytest.mark.parametrize(("name", "actions", "words"), BAD_ACTIONS)
def test_bad_actions_are_refused_before_anything_moves(name, actions, words):
    native, single = (
        gymnasium.make_vec(name, num_envs=2, on_illegal="raise", **SHORT[name], **mode)
        for mode in ({}, {"vectorization_mode": "sync"})
    )
    native.reset(seed=0)
    single.reset(seed=0)
    with pytest.raises(IllegalActionError, match=words):
        native.step(np.array(actions))
    legal = np.array([FIRST[name]] * 2)
    for _ in range(8):  # a masked action of a sub-environment that only resets is ignored
        alike(native.step(legal), single.step(legal))


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"num_envs": 0}, DescriptionError, "num_envs = 0: must be"),
        ({"num_envs": 4097}, DescriptionError, "num_envs = 4097: must be"),
        ({"num_envs": 10**9}, DescriptionError, "num_envs = 1000000000: must be"),
        ({"num_envs": 2.0}, DescriptionError, "num_envs = 2.0"),
        ({"threads": 0}, DescriptionError, "threads = 0"),
        ({"threads": True}, DescriptionError, "threads = True"),
        ({"threads": 100_000}, DescriptionError, "threads = 100000: must be"),
        ({"backend": "hardware"}, UnsupportedError, "vectorization_mode='sync'"),
        ({"backend": "quantum"}, PmossError, "quantum"),
        ({"load": "opened"}, UnknownNameError, "opened"),
        ({"autoreset_mode": "Disabled"}, UnknownNameError, "Disabled"),
    ],
)
def test_bad_arguments_are_refused_by_name(name, arguments, error, words):
    with pytest.raises(error, match=words):
        MAKE[name](**{"num_envs": 2, **SHORT[name], **arguments})


@pytest.mark.parametrize("name", MAKE)
def test_no_step_before_reset_or_after_close(name):
    envs, actions = MAKE[name](2, **SHORT[name]), np.array([FIRST[name]] * 2)
    single = gymnasium.make(name, **SHORT[name]).unwrapped
    assert np.array_equal(envs.action_masks(), [single.action_masks()] * 2)
    with pytest.raises(ResetNeeded):
        envs.step(actions)
    envs.reset(seed=0)
    with pytest.raises(DescriptionError, match="3 were given for 2"):
        envs.reset(seed=[1, 2, 3])
    envs.step(actions)
    envs.close()
    envs.close()
    assert envs.closed
    with pytest.raises(ResetNeeded):
        envs.step(actions)
