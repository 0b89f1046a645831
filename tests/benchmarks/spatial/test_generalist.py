"""One checkpoint for many tasks: what it learned from, and in which worlds it plays."""

import shutil

import pytest

pytest.importorskip("torch")

from pmoss_benchmarks.offline.tracks import OTHER_DISTRIBUTION, OTHER_OPERATIONS
from pmoss_benchmarks.spatial import generalist
from pmoss_benchmarks.spatial.generalist import (
    GeneralistCell,
    GeneralistOptions,
    learn,
    play,
    worlds,
)
from pmoss_datasets.suite import SHIPPED_ROOT, TOY, splits, task_names
from pmoss_env.errors import DescriptionError, UnknownNameError

SMALL = {"members": 1, "updates": 2, "width": 8, "features": 4, "demands": 2, "rounds": 1}
UNSEEN = ("unseen-workload", "unseen-distribution", "unseen-machine")


@pytest.fixture
def options(tmp_path):
    return GeneralistOptions(
        (TOY,),
        episodes=2,
        budget=20,
        changes=SMALL,
        folder=str(SHIPPED_ROOT),
        keep=str(tmp_path),
    )


def test_a_checkpoint_is_learned_once_and_plays_beside_all_rules(options, monkeypatch):
    path = learn(options)
    monkeypatch.setattr(generalist, "build", None)  # nobody asks for data again
    assert learn(options) == path
    found = play(options, GeneralistCell("same-task", TOY))
    assert found["learned"]
    assert set(found["policies"]) == {"surrogate", *generalist.RULES}
    assert len(found["policies"]["surrogate"]["scores"]) == 2
    best = max(generalist.RULES, key=lambda name: found["policies"][name]["score"]["value"])
    assert found["best_rule"] == best
    other = play(options, GeneralistCell("interference", TOY))
    assert not other["learned"]
    assert other["world"]["interference"] == "all"


def test_other_data_settings_or_seeds_are_another_checkpoint(options):
    from dataclasses import replace

    others = [
        replace(options, seed=1),
        replace(options, tier="random"),
        replace(options, changes={**SMALL, "updates": 3}),
        replace(options, learned_on=splits()["development"]),
    ]
    assert len({o.checkpoint.name for o in (options, *others)}) == 5
    # Where files lie decides nothing.
    assert replace(options, folder="elsewhere").settings == options.settings


def test_every_world_is_played_once():
    tasks = tuple(name for name in task_names() if name != TOY)
    cells = worlds(tasks, ("same-task", *UNSEEN))
    assert [cell.track for cell in cells[: len(tasks)]] == ["same-task"] * len(tasks)
    envs = [tuple(sorted(cell.env.items())) for cell in cells]
    assert len(set(envs)) == len(envs)
    assert {cell.env["machine"] for cell in cells} >= {"rome-7302", "skylake-x-4n"}


def test_made_up_worlds_hold_no_workload_of_the_unseen_tracks(options):
    made = list(generalist.made_up_worlds(35))
    assert made[:8] == list(generalist.made_up_worlds(8))
    assert len({world["machine"] for world in made}) == 35
    assert {world["interference"] for world in made} >= {"none", "all"}
    kinds = [world["machine"].split(":")[0] for world in made[:3]]
    assert kinds == ["random", "random-smt", "random-partly"]
    held_back = {*OTHER_OPERATIONS.values(), *OTHER_DISTRIBUTION.values()}
    # Tasks with scans meet ycsb-a there, which other tasks teach.
    assert held_back & {world["workload"] for world in made} <= {"ycsb-a"}


def test_a_checkpoint_learns_from_made_up_worlds_too(options, tmp_path):
    from dataclasses import replace

    root = tmp_path / "data"
    shutil.copytree(SHIPPED_ROOT / "pmoss" / TOY, root / "pmoss" / TOY)
    more = replace(options, made_up=1, made_up_episodes=4, folder=str(root))
    assert more.checkpoint != options.checkpoint
    assert learn(more) == more.checkpoint
    assert [path.parent.name for path in root.glob("made-up/pmoss/*/mixed-v0")] == [
        "random-4000-btree-ycsb-a-all"
    ]


def test_what_cannot_be_learned_or_played_is_refused():
    with pytest.raises(DescriptionError, match="each must be named once"):
        GeneralistOptions((TOY, TOY))
    with pytest.raises(UnknownNameError, match="no-task"):
        GeneralistOptions(("no-task",))
    with pytest.raises(DescriptionError, match="episodes = 0: must be at least 1"):
        GeneralistOptions((TOY,), episodes=0)
    with pytest.raises(DescriptionError, match="none of the tasks has one of them"):
        worlds((TOY,), ("unseen-machine",))
