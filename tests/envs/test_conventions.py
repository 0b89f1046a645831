"""What all environments have in common, and the table of docs/tutorials/other-libraries.md."""

import copy
import hashlib
import importlib
import inspect
import json
import pickle
import re

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import ResetNeeded
from gymnasium.utils import EzPickle
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from hypothesis import given
from hypothesis import strategies as st
from stable_baselines3.common.env_checker import check_env as check_env_for_sb3

from pmoss_env.envs.access_path.env import AccessPathEnv
from pmoss_env.envs.actions import whole_action
from pmoss_env.errors import DescriptionError, IllegalActionError, UnknownNameError
from pmoss_env.registration import environments, spatial_environments
from tests.envs.episodes import (
    CONTINUAL,
    DRIFTING,
    PATHS,
    SMALL,
    SPATIAL,
    THREADS,
    bits,
    legal,
    play,
)
from tests.sources import REPOSITORY

PAGE = REPOSITORY / "docs" / "tutorials" / "other-libraries.md"
#: Numbers that differ from all others of a shape.
SIZES = {"slices": 5, "threads": 7}
FULL = {"max_slices_per_core": 3, "node_memory_gib": [0.1, 0.6]}
#: One node, so that some spaces hold one value.
ONE_NODE = {"machine": "grace-hopper", "slices": 8}


def make(name, **options):
    return gymnasium.make(name, **{**SMALL[name], **options})


SLICEWISE = {"order": "load", "reward": "slice"}
TWO, ROOM = {"max_slices_per_core": 2}, {"node_memory_gib": [0.1, 0.6]}
#: Of episodes of random actions: the digest of their bits, the environment and its options.
EPISODES = [
    ("f16d7f65ac", SPATIAL, {"observation": "paper", "machine": "milan-nps4", "slices": 24}),
    ("0f0f8666a7", SPATIAL, {"observation": "complete", "noise": 1.0, **SLICEWISE}),
    ("f0dfe58d4f", SPATIAL, {"slices": 12, "constraints": TWO, "interference": "busy_core"}),
    ("a3979cc339", SPATIAL, {"actions": "core_node", "constraints": ROOM}),
    ("d4505f8373", SPATIAL, {"interference": "all", "deviation": 0.2, "reward": "terminal"}),
    ("da941a4353", SPATIAL, {"counters": "software", "incumbent": "spread", "order": "load"}),
    ("4d064c4e24", SPATIAL, {"load": "saturated:mix", "workload": "scans"}),
    ("44bf7edb09", SPATIAL, {"machine": "random:3", "slices": 30, "interference": "cache_thrash"}),
    ("154743aa08", CONTINUAL, {}),
    ("cf03d6f64f", CONTINUAL, {"noise": 1.0}),
    ("1007181f59", CONTINUAL, {"drift": "daily-mix", "epochs": 8, "noise": 1.0}),
    ("d5ba7b8e47", CONTINUAL, {"drift": "daily-load", "load": "open:5", "p99_limit_us": 50.0}),
    ("96aaa37ece", CONTINUAL, {"drift": "moving-load", "price_per_gb": 0.5, "deviation": 0.2}),
    ("e9d97ecdf3", CONTINUAL, {"drift": "memory", "copy_gb_per_s": 0.05, "epoch_seconds": 0.5}),
    ("d1c176d447", PATHS, {"relaxed": True, "noise": 1.0, "reward": "saving"}),
    ("6522103fcd", PATHS, {"drift": 0.9, "scans": 24}),
    ("91a5330161", THREADS, {"data_nodes": [0, 1], "program": "readseq", "stay": False}),
    ("8b6f4fed24", THREADS, {"threads": 9, "program": "mixed90", "utilisation": "bandwidth"}),
]


@pytest.mark.parametrize(("digest", "env", "options"), EPISODES)
def test_an_episode_keeps_its_bits(digest, env, options):
    assert hashlib.sha256(bits(play(make(env, **options), 7))).hexdigest()[:10] == digest


def rows():
    """Of each row: the id, the options beside it, and the cells that follow."""
    table = re.search(r"^\| environment \|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGE.read_text(), re.M)
    parameters, name = [], ""
    for line in table[1].splitlines():
        first, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        options = {}
        for word in re.findall(r"`([^`]+)`", first):
            key, sign, value = word.partition("=")
            if sign:
                options[key] = True if value == "True" else value.strip('"')
            else:
                name = word
        parameters.append(pytest.param(name, options, *cells, id=f"{name} {options}"))
    return parameters


def quoted(cell):
    return re.findall(r"`([^`]+)`", cell)


def test_every_environment_has_a_row():
    others = environments().keys() - spatial_environments().keys()
    assert {row.values[0] for row in rows()} == {SPATIAL, *others} == SMALL.keys()


@pytest.mark.parametrize(("name", "options", "masks", "shape", "illegal", "ends", "native"), rows())
def test_a_row_is_true(name, options, masks, shape, illegal, ends, native):
    constructor = inspect.signature(type(make(name).unwrapped)).parameters
    options |= {key: size for key, size in SIZES.items() if key in constructor}
    env = make(name, **options)
    observation, info = env.reset(seed=0)
    machine = env.unwrapped.machine
    sizes = {**SIZES, "tiles": machine.tiles, "nodes": machine.nodes}
    assert info["action_mask"].shape == eval(quoted(shape)[0], sizes)
    parts = [observation[key].ravel() for key in quoted(masks)]
    if name == CONTINUAL:
        expected = np.concatenate(parts)
    else:
        expected = parts[0] if len(parts) == 1 else np.outer(*parts).ravel()
    assert np.array_equal(info["action_mask"], expected)
    assert {key for key in observation if key.endswith("_mask")} == {
        *quoted(masks),
        *(["view_mask"] if name == SPATIAL else []),  # shows what is placed; no action's
    }

    values = quoted(illegal)
    assert constructor["on_illegal"].default == values[0]
    with pytest.raises(UnknownNameError, match=f"Known: {', '.join(sorted(values))}$"):
        make(name, **options, on_illegal="other")

    last = play(env)[-1]
    ended = {"terminated": last.terminated, "truncated": last.truncated}
    assert [key for key, flag in ended.items() if flag] == quoted(ends)

    assert native in ("yes", "no")
    envs = gymnasium.make_vec(name, num_envs=1, **{**SMALL[name], **options})
    assert isinstance(envs, SyncVectorEnv | AsyncVectorEnv) == (native == "no")
    envs.close()


@pytest.mark.filterwarnings("ignore:.*the mask forbids")  # the checkers look at no mask
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("pmoss/toy-v0", {}),
        (SPATIAL, {}),
        (SPATIAL, {"observation": "complete"}),
        ("pmoss/milan-nps4-btree-scans-v0", {"observation": "complete"}),
        *[
            ("pmoss/toy-v0", {"actions": "core_node", "observation": o, "constraints": c})
            for o in ("paper", "full", "complete", "compact")
            for c in (None, FULL)
        ],
        (SPATIAL, {**ONE_NODE, "actions": "core_node", "observation": "complete"}),
        (CONTINUAL, SMALL[CONTINUAL]),
        (CONTINUAL, {**ONE_NODE, "epochs": 6, "drift": "busy-cores"}),
        (PATHS, SMALL[PATHS]),
        (PATHS, {**SMALL[PATHS], "relaxed": True, "reward": "saving", "noise": 1.0}),
        (THREADS, SMALL[THREADS]),
    ],
    ids=str,
)
def test_the_checkers_are_content(name, options):
    check_env(gymnasium.make(name, **options).unwrapped, skip_render_check=True)
    check_env_for_sb3(gymnasium.make(name, **options).unwrapped, warn=False)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *[
            (SPATIAL, {"load": load, "interference": family, "order": order, "noise": 1.0})
            for load in ("closed", "saturated", "saturated:mix", "open:3")
            for family, order in (("none", "index"), ("busy_core", "load"))
        ],
        *((CONTINUAL, options) for options in DRIFTING),
        (PATHS, {"noise": 1.0}),
        (PATHS, {"relaxed": True}),
        (THREADS, {"program": "mixed50"}),
    ],
    ids=str,
)
def test_a_seed_gives_the_same_bits(name, options):
    env = make(name, **options)
    steps = play(env, 3)
    kinds = [{key: (type(v), np.shape(v)) for key, v in step.info.items()} for step in steps]
    assert kinds == [kinds[0]] * len(kinds)
    keys = importlib.import_module(type(env.unwrapped).__module__).INFO_KEYS
    assert set(steps[0].info) == set(keys)
    play(env, 4)
    assert bits(play(env, 3)) == bits(steps)
    assert bits(play(make(name, **options), 3)) == bits(steps)
    assert bits(play(env, 4)) != bits(steps)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        (SPATIAL, {"interference": "busy_core", "noise": 0.5, "backend_options": {}}),
        (SPATIAL, {"constraints": {"max_slices_per_core": 3}}),
        (CONTINUAL, {"drift": "jobs", "drift_options": {"compute": [0.5, 0.7]}}),
        (PATHS, {"relaxed": True}),
        (THREADS, {"data_nodes": [2, 3]}),
    ],
    ids=str,
)
def test_arguments_are_plain_json(name, options):
    env = make(name, **options)
    spec = EnvSpec.from_json(env.spec.to_json())
    assert json.loads(json.dumps(spec.kwargs)) == {**SMALL[name], **options}
    assert spec.max_episode_steps is None
    assert bits(play(gymnasium.make(spec))) == bits(play(env))


@pytest.mark.parametrize("name", SMALL)
def test_what_is_not_understood_is_refused(name):
    env = make(name).unwrapped
    for options in (5, 0, "incumbent", ["incumbent"]):
        with pytest.raises(DescriptionError, match=r"^options = .*: must be None or a dict"):
            env.reset(options=options)
    env.reset(seed=0, options={})
    for truth in (True, np.True_):
        with pytest.raises(IllegalActionError, match=r"must be (a )?whole number"):
            env.step([truth, 1] if name == CONTINUAL else truth)
    message = "environment argument 'machin': unknown; did you mean 'machine'"
    for made in (make, lambda name, **options: gymnasium.make_vec(name, num_envs=1, **options)):
        with pytest.raises(DescriptionError, match=re.escape(message)):
            made(name, machin="toy")
    with pytest.raises(UnknownNameError, match="ansi"):
        type(env)(render_mode="humane")


@pytest.mark.parametrize("name", SMALL)
def test_gymnasium_shows_an_environment_in_a_window(name, monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    pygame = pytest.importorskip("pygame", reason="the extra human is not installed")
    env = make(name, render_mode="human")
    env.reset(seed=0)
    shown = pygame.display.get_surface().copy()
    for _ in range(3):
        env.step(legal(env.unwrapped, np.random.default_rng(0)))
    assert pygame.image.tobytes(pygame.display.get_surface(), "RGB") != pygame.image.tobytes(
        shown, "RGB"
    )
    env.close()


@pytest.mark.parametrize("name", SMALL)
def test_a_step_needs_an_episode(name):
    env = make(name).unwrapped
    action = legal(env, np.random.default_rng(0))
    for ready in (lambda: None, lambda: play(env), lambda: (env.reset(), env.close())):
        ready()
        with pytest.raises(ResetNeeded):
            env.step(action)
    env.close()


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_begins_before_its_first_reset(name, copied):
    env = make(name)
    env.reset(seed=3)
    action = legal(env, np.random.default_rng(0))
    env.step(action)
    again = copied(env)
    assert again.spec == env.spec
    with pytest.raises(ResetNeeded):
        again.step(action)
    assert bits(play(again, 3)) == bits(play(env, 3))


class Prepared(AccessPathEnv):
    """An environment of a user, with a way of its own to be made."""

    @classmethod
    def of(cls, scans):
        env = cls.__new__(cls)
        AccessPathEnv.__init__(env, scans=scans)
        return env


class Named(AccessPathEnv, EzPickle):
    """An environment of a user, with an argument of its own."""

    def __init__(self, name):
        EzPickle.__init__(self, name)
        AccessPathEnv.__init__(self, scans=3)
        self.name = name


def test_a_users_environment_is_copied_by_what_it_was_made_with():
    env = copy.deepcopy(Prepared.of(3))
    env.reset(seed=0)
    assert env.scans.rows.size == 3
    for copied in (copy.copy, copy.deepcopy):
        assert copied(Named("x")).name == "x"
    assert AccessPathEnv.metadata is not Prepared.metadata


@pytest.mark.parametrize("name", [name for name in SMALL if name != THREADS])
def test_unreasonable_noise_is_refused(name):
    for noise in (1e308, 1001.0, float("nan"), -0.5):
        with pytest.raises(DescriptionError, match=r"noise = .*: must be a number from 0 to 1,000"):
            make(name, noise=noise)
    env = make(name, noise=1000.0)
    for seed in range(5):
        for step in play(env, seed):
            assert all(np.isfinite(value).all() for value in step.observation.values())
    env.close()


@given(st.integers(1, 50), st.integers(-60, 60))
def test_only_what_is_in_the_space_passes(count, number):
    if 0 <= number < count:
        for form in (number, np.int64(number), np.array(number)):
            assert whole_action(form, count, "must be from") == number
    else:
        with pytest.raises(IllegalActionError, match=f"action {number}: must be .* {count - 1}"):
            whole_action(number, count, "must be from")


@pytest.mark.parametrize("action", [0.5, 1.0, "1", None, [1], np.array([1, 2]), True, np.True_])
def test_what_is_no_whole_number_is_named(action):
    with pytest.raises(IllegalActionError, match="must be a whole number"):
        whole_action(action, 4, "must be from")
