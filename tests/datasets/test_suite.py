"""The committed tasks and tiers, what ships, and finding and checking datasets."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

from pmoss_benchmarks.offline.episodes import EVALUATION_SEED, VALIDATION_SEED
from pmoss_benchmarks.study.store import Results
from pmoss_datasets import Recipe, catalog, collect, collection, suite, write_dataset
from pmoss_datasets.card import card
from pmoss_datasets.evaluation import episode_seed
from pmoss_datasets.playing import PLAY, REFERENCE, chance
from pmoss_datasets.recipes import tier, tier_names
from pmoss_env.errors import DatasetError, DescriptionError
from pmoss_env.version import CONTINUED, __version__

TOY = {"machine": "toy", "slices": 8}
#: Of a row of the study headroom a task copies these: what datasets carry holds no results.
COPIED = (
    *("random", "simple", "best_simple", "search", "headroom", "headroom_over_rules"),
    *("simulated_headroom", "has_headroom"),
)


@pytest.fixture(scope="module")
def headroom_rows():
    results = Results(Path(__file__).parents[2])
    names = ("headroom", "headroom/machines", "headroom/rtree")
    return [row for name in names for row in results[name].rows]


@pytest.mark.parametrize("name", suite.task_names())
def test_a_task_is_named_after_what_it_is_and_holds_the_measured_headroom(name, headroom_rows):
    task = suite.load_task(name)
    assert Recipe(env=task.env).task == name
    env = {"load": "closed", "interference": "none", **task.env}
    own = [row for row in headroom_rows if all(row[key] == env[key] for key in env)]
    assert len(own) == (name != suite.TOY)
    measured = {key: own[0][key] for key in COPIED} if own else {}
    rounded = {
        key: float(f"{value:.6g}") if isinstance(value, float) else value
        for key, value in measured.items()
    }
    lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in rounded.items())
    assert task.headroom == rounded, f"in {name}.toml stands:\n[headroom]\n{lines}"


def test_tasks_of_the_paper_are_known_by_name_and_no_part_of_the_standard_suite():
    names = suite.paper_tasks()
    assert len(names) == 9 and not set(names) & set(suite.task_names())
    for name in names:
        task = suite.load_task(name)
        assert Recipe(env=task.env).task == name and not task.headroom
        assert suite.recipe_of(f"pmoss/{name}/paper-v0").episodes == tier("paper")["episodes"]


def test_core_tasks_are_noisy_and_of_several_kinds():
    names = suite.core_tasks()
    assert len(names) >= 6 and len(set(names.values())) >= 3
    for name in names:
        task = suite.load_task(name)
        assert Recipe(env=task.env).task == name
        assert (task.env["noise"], task.env["interference"]) == (1.0, "all")
        assert suite.recipe_of(f"pmoss/{name}/large-v0").episodes == 4000


@pytest.mark.parametrize("domain", ["spatial", "threads", "access-path", "continual"])
def test_no_data_hold_an_episode_of_an_evaluation(domain):
    played = [
        chance(values["seed"], stream, number)[0]
        for values in (tier(name, domain) for name in tier_names(domain) if name != "authors")
        for stream, episodes in ((PLAY, values.get("episodes", 300)), (REFERENCE, 10))
        for number in range(episodes)
    ]
    # Of `pmoss evaluate`, of the tables, and of the choice of checkpoints.
    evaluated = {
        episode_seed(first + seed, episode)
        for first in (0, EVALUATION_SEED, VALIDATION_SEED)
        for seed in range(10)
        for episode in range(100)
    }
    assert len(set(played)) == len(played)
    if domain == "spatial":
        # It shares its seed with a tier of other worlds: no agent learns from both.
        values = tier("authors", domain)
        played += [chance(values["seed"], PLAY, n)[0] for n in range(values["episodes"])]
    assert not evaluated & set(played)


def test_an_id_of_another_version_names_that_of_today():
    ids = suite.suite_ids(domain="continual")
    assert ids and all(id_.endswith("-v2") for id_ in ids)
    assert [suite.recipe_of(id_).id for id_ in ids] == ids
    with pytest.raises(DescriptionError, match=r"another version of it: pmoss/.*/mixed-v2"):
        suite.recipe_of("pmoss/skylake-x-8n-continual-jobs/mixed-v0")
    elder = suite.Recipe(domain="continual", version=0)
    assert elder.id.endswith("/mixed-v0")  # what is named goes before the domain's


def test_a_dataset_keeps_the_version_that_made_it(tmp_path, few, monkeypatch):
    id_ = f"pmoss/{suite.TOY}/random-v0"
    for version in ("0.0.1", min(CONTINUED - {__version__})):
        monkeypatch.setattr(collection, "__version__", version)
        suite.build(id_, tmp_path, overwrite=True)
        monkeypatch.setattr(collection, "__version__", __version__)
        if version in CONTINUED:  # the same bits
            assert suite.build(id_, tmp_path).metadata.code_version == version
        else:
            with pytest.raises(DatasetError, match=f"with pmoss-env {version} from another"):
                suite.build(id_, tmp_path)


def test_building_keeps_what_is_built_and_refuses_what_is_other(tmp_path, few):
    id_ = f"pmoss/{suite.TOY}/heuristic-v0"
    built = suite.build(id_, tmp_path)
    assert built.metadata.id == id_
    stamp = (built.path / "data.hdf5").stat().st_mtime_ns
    assert suite.build(id_, tmp_path).checksum == built.checksum
    assert (built.path / "data.hdf5").stat().st_mtime_ns == stamp
    with h5py.File(built.path / "data.hdf5", "a") as file:
        file["seed"][1] += 1
    with pytest.raises(DatasetError, match=r"episode 1: seed: bytes differ.*--overwrite builds"):
        suite.build(id_, tmp_path)
    assert suite.build(id_, tmp_path, overwrite=True).checksum == built.checksum
    other = f"pmoss/{suite.TOY}/medium-v0"
    shutil.copytree(tmp_path / id_, tmp_path / other)
    with pytest.raises(DatasetError, match="another recipe or version"):
        suite.build(other, tmp_path)
    [twice] = catalog.verify([tmp_path])
    assert twice.startswith(f"id {id_}: more than once: ")


def test_datasets_are_found_by_id(tmp_path, few, monkeypatch):
    monkeypatch.setenv(catalog.VARIABLE, str(tmp_path))
    id_ = f"pmoss/{suite.TOY}/random-v0"
    with pytest.raises(DatasetError, match="pmoss data build"):
        catalog.load(id_, obtain=False)
    built = suite.build(id_, catalog.default_root())
    assert catalog.load(id_).checksum == built.checksum
    assert catalog.load(tmp_path / id_).checksum == built.checksum
    # Other data where this id belongs, as a recipe with another number of episodes has it.
    collect(replace(suite.recipe_of(id_), episodes=2), tmp_path / "other" / id_)
    with pytest.raises(DatasetError, match="is of another recipe than the suite's"):
        catalog.load(id_, tmp_path / "other")
    with pytest.raises(DatasetError, match=f"holds {id_}, and not pmoss/mine/random-v0"):
        (tmp_path / "other/pmoss/mine").mkdir()
        shutil.copytree(tmp_path / id_, tmp_path / "other/pmoss/mine/random-v0")
        catalog.load("pmoss/mine/random-v0", tmp_path / "other")
    shutil.rmtree(tmp_path / "other")
    # A link to nowhere hides no dataset.
    (built.path / "link").symlink_to(tmp_path / "gone")
    assert id_ in [row[0] for row in catalog.listings(tmp_path)]
    # A folder of this name that holds no dataset of ours, such as Minari's form of it.
    (tmp_path / "elsewhere" / id_ / "data").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert catalog.load(id_).checksum == built.checksum
    assert id_ in [dataset.metadata.id for dataset in catalog.installed()]
    assert list(catalog.verify([tmp_path])) == []
    assert list(catalog.verify([tmp_path / "empty"])) == [f"{tmp_path / 'empty'}: holds no dataset"]


def test_verify_lists_every_problem(tmp_path, few):
    built = suite.build(f"pmoss/{suite.TOY}/random-v0", tmp_path)
    with h5py.File(built.path / "data.hdf5", "a") as file:
        file["actions"][2, 3] = 0
        file["throughput"][1, 2] = np.nan
    broken = suite.build(f"pmoss/{suite.TOY}/medium-v0", tmp_path)
    (broken.path / "metadata.json").write_text("{")
    problems = "\n".join(catalog.verify([tmp_path]))
    assert "data.hdf5: episode 2: actions: bytes differ" in problems
    assert "data.hdf5: episode 1: throughput: bytes differ" in problems
    assert "medium-v0/metadata.json: cannot be read" in problems
    assert len(problems.splitlines()) == 3
    (broken.path / "metadata.json").unlink()
    (built.path / "data.hdf5").unlink()
    problems = "\n".join(catalog.verify([tmp_path]))
    assert "medium-v0/metadata.json: is missing" in problems
    assert "random-v0/data.hdf5: is missing" in problems


def test_a_dataset_that_comes_out_otherwise_says_what_to_do(tmp_path, few):
    built = suite.build(f"pmoss/{suite.TOY}/random-v0", tmp_path)
    assert suite.check_rebuild(built, suite.rebuild(built, tmp_path / "again")) == []
    other = collect(Recipe(env=TOY, episodes=4, reference_episodes=0), tmp_path / "other")
    [problem] = suite.check_rebuild(built, other)
    assert "other bits in" in problem and "--overwrite" in problem
    noisy = replace(built.metadata, env_kwargs={**built.metadata.env_kwargs, "noise": 0.5})
    forged = write_dataset(tmp_path / "forged", list(built), noisy)
    [problem] = suite.check_rebuild(forged, built)
    assert "other bits in env_kwargs: " in problem
    assert Path(built.path).exists()


def test_every_task_is_in_one_split_and_machines_and_workloads_are_held_out():
    splits = suite.splits()
    assert set(splits) == {"development", "held-out"}
    tasks = [name for name in suite.task_names() if name != suite.TOY]
    assert sorted(name for names in splits.values() for name in names) == sorted(tasks)
    met, unmet = (
        [suite.load_task(name).env for name in splits[split]]
        for split in ("development", "held-out")
    )
    assert len(unmet) >= 5
    for what in ("machine", "workload"):
        assert {env[what] for env in unmet} - {env[what] for env in met}, what


@pytest.mark.parametrize("name", suite.SHIPPED)
def test_what_ships_is_small_sound_and_comes_out_of_its_recipe_again(name, tmp_path):
    dataset = catalog.load(name, tmp_path)
    assert dataset.path.is_relative_to(suite.SHIPPED_ROOT)
    dataset.verify()
    assert all(path.stat().st_size < 1_000_000 for path in dataset.path.iterdir())
    assert Recipe.from_dict(dataset.metadata.recipe) == suite.recipe_of(name)
    # A part of it, which each episode stands for by itself, to keep the test short.
    recipe = json.loads(json.dumps(dict(dataset.metadata.recipe)))
    recipe |= {"episodes": 3, "reference_episodes": 0}
    again = collect(Recipe.from_dict(recipe), tmp_path / "again")
    for field in again.metadata.fields:
        if field.axes != "K":  # padded to the most co-tenants of a dataset
            np.testing.assert_array_equal(
                again.column(field.name),
                dataset.column(field.name)[:3],
                err_msg=f"{field.name}: if the model or the environment was meant to change: "
                "pmoss data build --shipped --overwrite",
            )


@pytest.mark.parametrize("name", suite.MEASURED)
def test_what_was_measured_is_small_sound_and_tells_its_spread(name, tmp_path, monkeypatch):
    dataset = catalog.load(name, tmp_path)
    assert dataset.path.is_relative_to(suite.SHIPPED_ROOT)
    dataset.verify()
    assert all(path.stat().st_size < 1_000_000 for path in dataset.path.iterdir())
    assert dataset.metadata.env_kwargs["backend"] == "hardware"
    # Two schedules an episode.
    assert 2 * len(dataset) >= 1000
    assert dataset.checksum == suite.MEASURED[name]
    assert suite.licence_of(dataset) == suite.LICENCE
    text = card(dataset)
    assert "this project measured these data" in text
    stayed = np.ones(len(dataset), dtype=bool)
    for part in ("cores", "nodes"):
        both = (dataset.column(f"{when}_{part}") for when in ("incumbent", "final"))
        stayed &= np.equal(*both).all(axis=1)
    first, again = (dataset.column(f"{when}_throughput") for when in ("incumbent", "final"))
    stayed &= (first > 0) & (again > 0)
    ratio = float(np.exp(np.log(again[stayed] / first[stayed]).mean()))
    assert f"In {stayed.sum()} episodes the schedule stayed" in text
    assert f"an A/A test. The second measurement is {ratio:.3f} times the first" in text
    monkeypatch.setattr("pmoss_datasets.spatial.card._REPEATS", stayed.sum() + 1)
    assert "A/A" not in card(dataset)
