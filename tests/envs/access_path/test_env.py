import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as check_env_for_sb3

import pmoss_env  # noqa: F401
from pmoss_env.envs.access_path.env import INFO_KEYS
from pmoss_env.errors import (
    DescriptionError,
    IllegalActionError,
    UnknownNameError,
    UnsupportedError,
)

ID = "pmoss/AccessPath-v0"
SMALL = {"scans": 8, "distribution": {"doublings": 4}}


def make(**kwargs):
    return gymnasium.make(ID, **{**SMALL, **kwargs}).unwrapped


def play(env, seed=0, paths=None):
    """An episode's bits, its rewards and its last info; random legal paths unless given."""
    rng = np.random.default_rng(seed)
    observation, info = env.reset(seed=seed)
    bits, rewards, done = [], [], False
    while not done:
        legal = np.flatnonzero(info["action_mask"])
        path = rng.choice(legal) if paths is None else paths[len(rewards)]
        assert set(info) == set(INFO_KEYS)
        for array in (info["action_mask"], env.action_masks()):
            assert np.array_equal(array, observation["action_mask"])
        bits += [observation["features"].tobytes(), observation["action_mask"].tobytes()]
        observation, reward, done, truncated, info = env.step(path)
        assert truncated is False
        rewards.append(reward)
        bits.append(np.float64(reward).tobytes())
    assert not observation["features"].any()
    return bits, rewards, info


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kwargs", [{}, {"relaxed": True, "reward": "saving", "noise": 1.0}])
def test_gymnasiums_checker_is_content(kwargs):
    check_env(make(**kwargs), skip_render_check=True)


def test_stable_baselines3_checker_is_content():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env_for_sb3(make(), warn=False)


def test_its_arguments_are_plain_json():
    env = gymnasium.make(ID, **SMALL, relaxed=True)
    restored = gymnasium.envs.registration.EnvSpec.from_json(env.spec.to_json())
    assert restored.kwargs == {**SMALL, "relaxed": True}
    assert env.spec.max_episode_steps is None


def test_the_same_seed_gives_the_same_bits():
    assert play(make(noise=1.0), 3)[0] == play(make(noise=1.0), 3)[0]
    assert play(make(), 3)[0] != play(make(), 4)[0]


def test_the_return_is_minus_the_time_of_all_scans():
    env = make()
    _, rewards, info = play(env, paths=[0, 1] * 4)
    assert info["total_time_us"] == pytest.approx(-1e3 * sum(rewards))
    assert info["scan"] == 8
    assert info["path"] == 1


def test_savings_are_relative_to_the_processors_loads():
    _, rewards, _ = play(make(reward="saving"), paths=[0] * 8)
    assert rewards == [0.0] * 8
    env = make(reward="saving")
    env.reset(seed=5)
    cpu, offload = env.path_times_us()
    assert env.step(1)[1] == pytest.approx(1 - offload / cpu)


def test_a_step_takes_the_time_that_was_told_and_asking_disturbs_nothing():
    asked, plain = make(noise=1.0), make(noise=1.0)
    for env in (asked, plain):
        env.reset(seed=2)
    for _ in range(8):
        told = asked.path_times_us()
        one, other = asked.step(1), plain.step(1)
        assert one[4]["run_time_us"] == other[4]["run_time_us"] == told[1]


def test_the_paths_taken_before_do_not_change_what_comes():
    first, second = make(), make()
    one = [first.reset(seed=1)[0]] + [first.step(0)[0] for _ in range(8)]
    other = [second.reset(seed=1)[0]] + [second.step(1)[0] for _ in range(8)]
    for a, b in zip(one, other, strict=True):
        assert np.array_equal(a["features"], b["features"])


def test_the_background_drifts():
    still, moving = make(scans=32, drift=0.0), make(scans=32, drift=0.2)
    for env in (still, moving):
        env.reset(seed=0)
    asked = [env.scans.cpu_workers * env.scans.cpu_worker_gb_per_s for env in (still, moving)]
    assert np.ptp(asked[0]) == 0
    assert np.ptp(asked[1]) > 0.1 * 12
    assert np.abs(np.diff(asked[1])).max() <= 0.2 * 12


def test_relaxed_copies_are_offered_on_request_flagged_and_only_of_read_only_columns():
    assert make().action_space.n == 2
    env = make(relaxed=True, scans=40)
    observation, info = env.reset(seed=0)
    masks = []
    for _ in range(40):
        masks.append(observation["action_mask"][2])
        observation, _, _, _, info = env.step(2)
        assert info["path"] == (2 if masks[-1] else 1)
    assert 0 < sum(masks) < 40
    assert info["illegal_actions"] == 40 - sum(masks)
    assert info["correct"] is False
    assert play(make(relaxed=True), paths=[1] * 8)[2]["correct"] is True


@pytest.mark.parametrize("on_illegal", ["terminate", "raise"])
def test_illegal_paths_end_the_episode_or_raise(on_illegal):
    never = {**SMALL["distribution"], "read_only_share": 0.0}
    env = make(relaxed=True, on_illegal=on_illegal, distribution=never)
    env.reset(seed=0)
    if on_illegal == "raise":
        with pytest.raises(IllegalActionError):
            env.step(2)
    else:
        _, reward, terminated, _, info = env.step(2)
        assert (reward, terminated, info["illegal_actions"], info["path"]) == (0.0, True, 1, -1)


def test_offloading_pays_for_large_columns_of_another_blade_and_never_for_tiny_ones():
    tiny = make(scans=24, distribution={"doublings": 0, "least_kib": 64})
    tiny.reset(seed=0)
    large = make(scans=24, distribution={"doublings": 0, "least_kib": 2**18, "result_share": 0.0})
    large.reset(seed=0)
    for _ in range(24):
        cpu, offload = tiny.path_times_us()
        assert cpu < offload
        tiny.step(0)
        scan = large.scans[large._step : large._step + 1]
        times = large.path_times_us()
        engine_load = float((scan.engine_workers * scan.engine_worker_gb_per_s)[0])
        if scan.execution_node[0] // 4 != scan.storage_node[0] // 4 and engine_load < 2:
            assert times[1] < times[0]
        large.step(0)


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
        ({"noise": -1.0}, DescriptionError),
        ({"distribution": {"sizes": 1}}, UnknownNameError),
        ({"distribution": {"result_share": 2.0}}, DescriptionError),
        ({"render_mode": "human"}, UnknownNameError),
    ],
)
def test_impossible_arguments_are_refused(kwargs, error):
    from pmoss_env.envs.access_path import AccessPathEnv

    with pytest.raises(error):
        AccessPathEnv(**kwargs)


def test_steps_need_an_episode_and_an_action_that_exists():
    env = make()
    assert env.action_masks().all()
    with pytest.raises(ResetNeeded):
        env.step(0)
    with pytest.raises(ResetNeeded):
        env.path_times_us()
    env.reset(seed=0)
    for action in (2, -1, 0.5, None):
        with pytest.raises(IllegalActionError):
            env.step(action)
    with pytest.raises(UnknownNameError):
        env.reset(options={"incumbent": 1})


def test_an_episode_can_be_seen():
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
