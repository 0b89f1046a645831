"""One row more in the table of counters, in a copy of the repository: everything goes on."""

import json
import shlex
from pathlib import Path

import pytest

import pmoss_agents
from pmoss_datasets import Recipe, collect
from tests.contributing import Copy, stories
from tests.use_counters import ENV, actions_of

pytest.importorskip("torch")
pytest.importorskip("sb3_contrib")


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Path]]:
    """A dataset and checkpoints of agents, written with today's table."""
    folder = tmp_path_factory.mktemp("before")
    dataset = collect(Recipe(env=ENV, episodes=4, seed=2, reference_episodes=0), folder / "dataset")
    sizes = {"layers": 1, "heads": 2, "width": 16, "channels": 8, "updates": 2, "batch_size": 2}
    agent = pmoss_agents.make("decision-transformer", **sizes, reward="slice")
    agent.fit(dataset)
    agent.save(folder / "transformer.safetensors")
    sizes = {"steps": 96, "envs": 4, "channels": 4, "width": 8, "batch_size": 16, "epochs": 2}
    agent = pmoss_agents.make("maskable-ppo", **sizes)
    agent.fit(ENV)
    agent.save(folder / "ppo.safetensors")
    return folder / "dataset", [folder / "transformer.safetensors", folder / "ppo.safetensors"]


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    """A copy whose table has the row of CONTRIBUTING.md."""
    copy = Copy(tmp_path / "a copy")
    copy.do(stories()["Add a counter"])
    return copy


def use(copy: Copy, before: tuple[Path, list[Path]]) -> bool:
    """Uses the copy; whether its native module knows all counters."""
    dataset, checkpoints = before
    files = [dataset, *checkpoints]
    output = copy.run(shlex.join(["python", "-m", "tests.use_counters", *map(str, files)]))
    shown = json.loads(next(line for line in output.splitlines() if line.startswith("{")))
    assert shown["actions"] == actions_of(checkpoints)
    assert all(len(actions) == 3 for actions in shown["actions"].values())
    return bool(shown["known"])


def test_before_the_native_module_is_built_again(copy, before):
    assert not use(copy, before)
    assert "[`itlb_misses`](#itlb_misses)" in copy.run("pmoss dev report docs/concepts/counters.md")


@pytest.mark.heavy
@pytest.mark.native
def test_after_the_native_module_is_built_again(copy, before):
    copy.run("python native/build.py", timeout=1800)
    assert use(copy, before)
