"""Access paths: the environment, and its simulated scans."""

from dataclasses import replace

import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from pmoss_env.envs.access_path import AccessPathEnv, ScanDistribution, Scans, SimulatedScans
from pmoss_env.errors import (
    DescriptionError,
    IllegalActionError,
    UnknownNameError,
    UnsupportedError,
)
from tests.envs.episodes import PATHS, SMALL, play, total


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
            assert "offload" in shown
            assert len(shown.splitlines()) == 5
        else:
            assert shown.ndim == 3
            assert shown.std() > 10


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
    assert len(names) == 2 * (8 + 8) + 4 * 3
    assert "socket0-socket2" not in names
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
