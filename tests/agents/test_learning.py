"""Training as a user asks for it, in every domain."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pmoss_agents
from pmoss_agents.access_path.base import decisions
from pmoss_agents.learning import find_lesson, learn, new_agent
from pmoss_datasets import Recipe, collect
from pmoss_datasets.access_path.scans import AccessPathRecipe, collect_scans
from pmoss_env.errors import DatasetError, DescriptionError, UnknownNameError

SCANS = {"scans": 12}
REQUESTS = {"requests": 400_000}


@pytest.fixture(scope="module")
def episodes(tmp_path_factory: Any) -> Path:
    """Recorded episodes of access paths."""
    recipe = Recipe(env=SCANS, domain="access-path", episodes=8, reference_episodes=0)
    return collect(recipe, tmp_path_factory.mktemp("episodes") / "d").path


def test_the_domain_follows_from_the_data(episodes: Path, tmp_path: Path) -> None:
    lesson = find_lesson(episodes, {})
    assert (lesson.domain, lesson.task) == ("access-path", "uv-300h-access-path-scans-12")
    agent = new_agent(lesson, None, None, {})
    assert agent.name == "linear-cost"
    assert learn(agent, lesson) == {"scans": 96.0}
    with pytest.raises(UnknownNameError, match="unknown agent of access-path 'cqll'"):
        new_agent(lesson, "cqll", None, {})
    for name, domain in (("cql", "spatial"), ("forecaster", "continual")):
        problem = f"agent {name}: is of the domain {domain}, not of access-path"
        way = f"give data of {domain}, as of pmoss data collect OUT --domain {domain}"
        with pytest.raises(DescriptionError, match=f"{problem}: {way}"):
            new_agent(lesson, name, None, {})
    with pytest.raises(DescriptionError, match="threads, not of spatial: choose --domain threads"):
        new_agent(find_lesson(None, {}, domain="spatial"), "threads-linucb", None, {})
    with pytest.raises(DescriptionError, match="is of the domain spatial, not of access-path"):
        new_agent(lesson, "pmoss_agents.spatial.cql:CQL", None, {})
    with pytest.raises(DescriptionError, match="is of the domain access-path, not of spatial"):
        find_lesson(episodes, {}, domain="spatial")
    with pytest.raises(DatasetError, match="needs what every path"):
        learn(new_agent(lesson, "decision-tree", None, {}), lesson)
    scans = collect_scans(AccessPathRecipe(combinations=20, repeats=2))
    assert pmoss_agents.make("decision-tree").fit(scans).keys() == {"above_best"}  # type: ignore[attr-defined]


def test_the_domain_follows_from_the_agent() -> None:
    lesson = find_lesson(None, REQUESTS, agent="threads-linucb")
    assert (lesson.domain, lesson.learns) == ("threads", "online")
    agent = new_agent(lesson, "threads-linucb", None, {"episodes": 2})
    done = []
    learn(agent, lesson, progress=lambda update, *_: done.append(update))
    assert done == [1, 2]
    assert new_agent(find_lesson(None, {}, domain="threads"), None, None, {}).name == (
        "threads-hybrid"
    )
    data = find_lesson(None, {}, agent="linear-cost")
    with pytest.raises(DescriptionError, match="linear-cost learns from data"):
        learn(new_agent(data, "linear-cost", None, {}), data)
    with pytest.raises(DescriptionError, match="threads-rule learns nothing"):
        learn(pmoss_agents.make("threads-rule"), lesson)


def test_episodes_teach_what_the_chosen_paths_cost(episodes: Path) -> None:
    lesson = find_lesson(episodes, {})
    features, times = decisions(lesson.data)
    assert features.shape == (96, 5) and times.shape == (96, 2)
    assert (np.isnan(times).sum(axis=1) == 1).all()
    first = lesson.data[0]
    measured = times[: first.steps][np.arange(first.steps), first.actions]
    # The environment pays minus the milliseconds.
    np.testing.assert_allclose(measured, -1e3 * first.rewards)
    for name in ("linear-cost", "linucb"):
        agent = new_agent(lesson, name, None, {})
        learn(agent, lesson)
        assert set(agent.choose(features)) <= {0, 1}  # type: ignore[attr-defined]
    cpu: Any = ({"policy": "always-cpu"},)
    recipe = Recipe(
        env=SCANS, domain="access-path", episodes=1, reference_episodes=0, behaviours=cpu
    )
    of_one_path = collect(recipe, episodes.parent / "one")
    with pytest.raises(DatasetError, match="no scan took the path 'offload'"):
        pmoss_agents.make("linear-cost").fit(of_one_path)  # type: ignore[attr-defined]
    with pytest.raises(DatasetError, match=r"open_dataset\(path\) gives a Dataset"):
        pmoss_agents.make("linear-cost").fit(of_one_path.path)  # type: ignore[attr-defined]


def test_a_surrogate_learns_from_machines_of_other_sizes_and_others_refuse(tmp_path: Path) -> None:
    pytest.importorskip("torch")

    folders = []
    for machine, slices in (("toy", 8), ("random-smt:1", 6)):
        recipe = Recipe(
            env={"machine": machine, "slices": slices}, episodes=3, reference_episodes=0
        )
        folders.append(tmp_path / f"{slices}")
        collect(recipe, folders[-1])
    lesson = find_lesson(folders, {}, agent="surrogate")
    small = {"members": 1, "updates": 4, "width": 8, "features": 4, "demands": 2}
    agent = new_agent(lesson, "surrogate", None, small)
    assert learn(agent, lesson)["loss"] > 0
    assert " + " in agent.dataset["id"]
    cloner = new_agent(lesson, "cql", None, {})
    with pytest.raises(DescriptionError, match="one dataset at a time"):
        learn(cloner, lesson)
