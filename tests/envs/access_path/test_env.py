"""Episodes of access paths, modelled and real."""

from dataclasses import replace

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from hypothesis import given, settings
from hypothesis import strategies as st

from pmoss_env._native import ScanTable
from pmoss_env.envs.access_path import AccessPathEnv, ScanDistribution, Scans, SimulatedScans
from pmoss_env.envs.access_path.real import ENGINES, make_engine, scan
from pmoss_env.errors import (
    DescriptionError,
    ForkedError,
    IllegalActionError,
    UnknownNameError,
    UnsupportedError,
)
from tests.envs.episodes import PATHS, SMALL, play, total
from tests.forked import in_child


def make(**options):
    return AccessPathEnv(**{**SMALL[PATHS], **options})


def test_the_return_is_minus_the_time_of_all_scans():
    steps = play(make(), actions=[0, 1] * 4)
    info = steps[-1].info
    assert info["total_time_us"] == pytest.approx(-1e3 * total(steps))
    assert (info["scan"], info["path"]) == (8, 1)
    assert not steps[-1].observation["features"].any()


def test_a_step_takes_its_path_time_and_asking_for_it_changes_nothing():
    env = make(noise=1.0)
    expected = play(env, 2, [1] * 8)
    env.reset(seed=2)
    for step in expected[1:]:
        times = env.path_times_us()
        assert env.step(1)[4]["run_time_us"] == step.info["run_time_us"] == times[1]


@pytest.mark.parametrize("on_illegal", ["terminate", "raise"])
def test_illegal_paths_end_the_episode_or_raise(on_illegal):
    env = make(relaxed=True, on_illegal=on_illegal, distribution={"read_only_share": 0.0})
    env.reset(seed=0)
    if on_illegal == "raise":
        with pytest.raises(IllegalActionError):
            env.step(2)
    else:
        _, reward, terminated, _, info = env.step(2)
        assert (reward, terminated, info["illegal_actions"], info["path"]) == (0.0, True, 1, -1)


@pytest.mark.parametrize(
    ("kwargs", "error"),
    [
        ({"machine": "skylake-x-8n"}, UnsupportedError),
        ({"machine": "no-such"}, UnknownNameError),
        ({"machine": 3}, DescriptionError),
        ({"scans": 0}, DescriptionError),
        ({"scans": np.int64(4)}, DescriptionError),
        ({"relaxed": 1}, DescriptionError),
        ({"reward": "speed"}, UnknownNameError),
        ({"drift": 2.0}, DescriptionError),
        ({"distribution": {"sizes": 1}}, UnknownNameError),
        ({"distribution": {"result_share": 2.0}}, DescriptionError),
        ({"distribution": 3}, DescriptionError),
        ({"distribution": {"least_kib": 1e6, "doublings": 20}}, DescriptionError),
        ({"scans": 10**15}, DescriptionError),
    ],
)
def test_impossible_arguments_are_refused(kwargs, error):
    with pytest.raises(error):
        AccessPathEnv(**kwargs)


def test_paths_need_an_episode_and_exist():
    env = make()
    assert env.action_masks().all()
    with pytest.raises(ResetNeeded):
        env.path_times_us()
    env.reset(seed=0)
    for action in (2, -1, 0.5, None):
        with pytest.raises(IllegalActionError):
            env.step(action)


def test_rendering():
    for mode in ("ansi", "rgb_array"):
        env = make(render_mode=mode)
        env.reset(seed=0)
        env.render()
        for path in (0, 1, 0):
            env.step(path)
        shown = env.render()
        if mode == "ansi":
            assert "offload" in shown and len(shown.splitlines()) == 5
        else:
            assert shown.ndim == 3 and shown.std() > 10


@pytest.fixture(scope="module")
def simulated():
    return SimulatedScans()


def test_rows_decide_alone_and_threads_change_nothing(simulated):
    scans = ScanDistribution(doublings=3).draw(np.random.default_rng(1), 12, 8)
    seeds = np.arange(12)
    together = simulated.run(scans, 1, seeds, threads=2).run_time_us
    alone = [simulated.run(scans[i : i + 1], 1, seeds[i]).run_time_us[0] for i in range(12)]
    assert together.tolist() == alone


def test_links_have_payload_and_overhead_and_no_diagonal(simulated):
    names = simulated.link_names
    assert len(names) == 2 * (8 + 8) + 4 * 3 and "socket0-socket2" not in names
    traffic = simulated.links(Scans.of(4, 1e6), 0)[0]
    loaded = {name for name, (payload, _) in zip(names, traffic, strict=True) if payload > 0}
    assert loaded == {"socket4-hub2", "hub2-hub0", "hub0-socket0"}


def test_impossible_things_are_refused(simulated):
    with pytest.raises(UnsupportedError, match="copy engines"):
        SimulatedScans("milan-nps4")
    given = simulated.machine.offload
    free = replace(given["engine_line_ns"], value=0.0)
    with pytest.raises(DescriptionError, match="engine_line_ns"):
        SimulatedScans(replace(simulated.machine, offload={**given, "engine_line_ns": free}))
    with pytest.raises(DescriptionError, match="node"):
        simulated.run(Scans.of(9, 1e6), 0, 0)
    with pytest.raises(DescriptionError, match="results"):
        simulated.run(Scans.of(0, 10, 11), 0, 0)
    with pytest.raises(DescriptionError, match="path"):
        simulated.run(Scans.of(0, 10), 3, 0)
    with pytest.raises(DescriptionError, match="doublings"):
        ScanDistribution(doublings=-1)


THREAD = make_engine("thread")
LEAST, MOST = -(2**31), 2**31 - 1


@settings(max_examples=60)
@given(
    values=st.lists(st.one_of(st.integers(0, 5), st.integers(LEAST, MOST)), max_size=3000),
    low=st.integers(LEAST, MOST),
    high=st.integers(LEAST, MOST),
    small=st.booleans(),
    capacity=st.one_of(st.none(), st.integers(0, 50)),
    offset=st.integers(0, 3),
)
def test_every_path_equals_the_reference(values, low, high, small, capacity, offset):
    if small:
        low, high = 1, 3
    raw = np.zeros(4 * len(values) + offset, dtype=np.uint8)
    raw[offset:] = np.array(values, dtype=np.int32).view(np.uint8)
    column = raw[offset:].view(np.int32)  # at any address
    expected = [i for i, value in enumerate(values) if low <= value <= high]
    for engine in (None, THREAD):
        for isa in ("", "scalar"):
            result = scan(column, low, high, engine=engine, capacity=capacity, block_kib=4, isa=isa)
            assert result.positions.tolist() == expected
            assert result.offloaded == (engine is not None and len(values) > 0)


def test_a_buffer_that_is_too_small_is_reported_and_made_larger():
    result = scan(np.arange(10_000, dtype=np.int32), 100, 8_999, capacity=10, engine=THREAD)
    assert np.array_equal(result.positions, np.arange(100, 9_000))
    assert "8900 positions did not fit a buffer of 10" in result.reason


def test_an_engine_stays_in_the_process_that_made_it():
    engines = [make_engine("thread")]

    def scan_in_child() -> int:
        with pytest.raises(ForkedError, match="make one in this process"):
            scan(np.zeros(9, np.int32), 0, 1, engine=engines[0])
        engines.clear()  # without waiting for its thread
        return 0

    assert in_child(scan_in_child) == 0


def test_an_empty_table_is_not_offloaded_and_says_so():
    result = scan(np.zeros(0, np.int32), 0, 1, engine=THREAD)
    assert result.positions.size == 0 and "empty" in result.reason


def test_a_host_without_the_engine_scans_with_loads_and_says_why():
    result = scan(np.arange(100, dtype=np.int32), 5, 9, engine="dsa")
    assert result.positions.tolist() == [5, 6, 7, 8, 9]
    try:
        make_engine("dsa")
    except UnsupportedError as error:
        assert str(error) in result.reason
        assert not result.offloaded
    else:
        assert result.offloaded
    assert set(ENGINES) == {"thread", "dsa"}


def test_impossible_scans_are_refused():
    column = np.arange(10, dtype=np.int32)
    for values, low, options, words in [
        (column.astype(np.int64), 0, {}, "int32"),
        (column[::2], 0, {}, "gaps"),
        (column, -(2**40), {}, "low"),
        (column, 0, {"capacity": -1}, "capacity"),
        (column, 0, {"engine": THREAD, "block_kib": 0}, "block_kib"),
        (column, 0, {"isa": "sse"}, "isa"),
    ]:
        with pytest.raises(DescriptionError, match=words):
            scan(values, low, 1, **options)
    with pytest.raises(UnknownNameError):
        scan(column, 0, 1, engine="gru")


def test_a_range_for_no_match_is_scanned_to_the_end():
    low, high = ScanTable.range_of(0.0)
    assert low <= high
    # Tables hold no such value. A column that does shows that every row is looked at.
    assert scan(np.full(1000, low, np.int32), low, high).positions.size == 1000
    assert ScanTable(1000, 1).scan(low, high, rows=1000, capacity=1000)["matches"] == 0
