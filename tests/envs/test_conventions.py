"""The table of docs/tutorials/other-libraries.md is what the environments do."""

import inspect
import re

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from pmoss_env.errors import UnknownNameError
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
