"""The table of docs/tutorials/other-libraries.md is what the environments do."""

import inspect
import re

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from pmoss_env.errors import DescriptionError, IllegalActionError, UnknownNameError
from pmoss_env.registration import environments, spatial_environments
from tests.sources import REPOSITORY

PAGE = REPOSITORY / "docs" / "tutorials" / "other-libraries.md"
#: Small ones.
SMALL = {
    "pmoss/SpatialScheduling-v0": {"machine": "toy", "slices": 5},
    "pmoss/ContinualScheduling-v1": {"machine": "toy", "slices": 5, "epochs": 2},
    "pmoss/ThreadScheduling-v0": {"requests": 1_000_000, "threads": 7},
    "pmoss/AccessPath-v0": {"scans": 4, "distribution": {"doublings": 4}},
}


def rows():
    """Of each row: the id, the options beside it, and the cells that follow."""
    table = re.search(r"^\| environment \|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGE.read_text(), re.M)
    found, name = [], ""
    for line in table[1].splitlines():
        first, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        options = {}
        for word in re.findall(r"`([^`]+)`", first):
            key, sign, value = word.partition("=")
            if sign:
                options[key] = True if value == "True" else value.strip('"')
            else:
                name = word
        found.append(pytest.param(name, options, *cells, id=f"{name} {options}"))
    return found


def quoted(cell):
    return re.findall(r"`([^`]+)`", cell)


def legal(env, rng):
    """A legal action of chance."""
    parts = np.split(env.unwrapped.action_masks(), getattr(env.action_space, "nvec", [0])[:1])
    action = [rng.choice(np.flatnonzero(part)) for part in parts if part.size]
    return action if len(action) > 1 else action[0]


def test_every_environment_has_a_row():
    others = environments().keys() - spatial_environments().keys()
    named = {row.values[0] for row in rows()}
    assert named == {"pmoss/SpatialScheduling-v0", *others} == SMALL.keys()


@pytest.mark.parametrize(("name", "options", "masks", "shape", "illegal", "ends", "native"), rows())
def test_a_row_is_true(name, options, masks, shape, illegal, ends, native):
    env = gymnasium.make(name, **SMALL[name], **options)
    observation, info = env.reset(seed=0)
    machine = env.unwrapped.machine
    sizes = {"tiles": machine.tiles, "nodes": machine.nodes, "slices": 5, "threads": 7}
    assert info["action_mask"].shape == eval(quoted(shape)[0], sizes)
    parts = [observation[key].ravel() for key in quoted(masks)]
    if name == "pmoss/ContinualScheduling-v1":
        expected = np.concatenate(parts)
    else:
        expected = parts[0] if len(parts) == 1 else np.outer(*parts).ravel()
    assert np.array_equal(info["action_mask"], expected)
    assert {key for key in observation if key.endswith("_mask")} == {
        *quoted(masks),
        *(["view_mask"] if "Spatial" in name else []),  # shows what is placed; no action's
    }

    values = quoted(illegal)
    constructor = inspect.signature(type(env.unwrapped)).parameters
    assert constructor["on_illegal"].default == values[0]
    with pytest.raises(UnknownNameError, match=f"Known: {', '.join(sorted(values))}$"):
        gymnasium.make(name, **SMALL[name], **options, on_illegal="other")

    rng, flags = np.random.default_rng(0), {"terminated": False, "truncated": False}
    while not any(flags.values()):
        _, _, flags["terminated"], flags["truncated"], _ = env.step(legal(env, rng))
    assert [key for key, flag in flags.items() if flag] == quoted(ends)

    assert native in ("yes", "no")
    envs = gymnasium.make_vec(name, num_envs=1, **SMALL[name], **options)
    assert isinstance(envs, SyncVectorEnv | AsyncVectorEnv) == (native == "no")
    envs.close()


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("options", [5, 0, "incumbent", ["incumbent"]])
def test_options_that_are_no_dict_are_refused(name, options):
    env = gymnasium.make(name, **SMALL[name]).unwrapped
    with pytest.raises(DescriptionError, match=r"^options = .*: must be None or a dict of options"):
        env.reset(options=options)
    env.reset(options={})
    env.close()


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("truth", [True, np.True_])
def test_a_truth_value_is_no_action(name, truth):
    env = gymnasium.make(name, **SMALL[name]).unwrapped
    env.reset(seed=0)
    action = [truth, 1] if name == "pmoss/ContinualScheduling-v1" else truth
    with pytest.raises(IllegalActionError, match=r"must be (a )?whole number"):
        env.step(action)
    env.close()


@pytest.mark.parametrize("name", SMALL)
def test_a_closed_environment_takes_no_step(name):
    env = gymnasium.make(name, **SMALL[name]).unwrapped
    env.reset(seed=0)
    action = legal(env, np.random.default_rng(0))
    env.close()
    with pytest.raises(ResetNeeded):
        env.step(action)
    env.close()


@pytest.mark.parametrize("name", SMALL)
def test_an_unknown_argument_is_answered_with_the_nearest(name):
    message = "environment argument 'machin': unknown; did you mean 'machine'"
    with pytest.raises(DescriptionError, match=re.escape(message)):
        gymnasium.make(name, machin="toy")
    with pytest.raises(DescriptionError, match=re.escape(message)):
        gymnasium.make_vec(name, num_envs=1, machin="toy")


@pytest.mark.parametrize("name", [name for name in SMALL if name != "pmoss/ThreadScheduling-v0"])
def test_unreasonable_noise_is_refused(name):
    for noise in (1e308, 1001.0, float("nan"), -0.5):
        with pytest.raises(DescriptionError, match=r"noise = .*: must be a number from 0 to 1,000"):
            gymnasium.make(name, **SMALL[name], noise=noise)
    env = gymnasium.make(name, **SMALL[name], noise=1000.0)
    rng = np.random.default_rng(0)
    for seed in range(5):
        observation, _ = env.reset(seed=seed)
        ended = False
        while not ended:
            assert env.observation_space.contains(observation)
            assert all(np.isfinite(value).all() for value in observation.values())
            observation, _, terminated, truncated, _ = env.step(legal(env, rng))
            ended = terminated or truncated
    env.close()
