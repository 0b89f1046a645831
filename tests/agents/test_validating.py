"""Scores over updates beside a training, the best agent by them, and what is refused before."""

from pathlib import Path

import numpy as np
import pytest

import pmoss_agents
from pmoss_agents import checkpoints
from pmoss_agents.learning import find_lesson
from pmoss_agents.training_log import read_log
from pmoss_agents.validating import SEED, Validation, Worlds, rows_path
from pmoss_datasets import Recipe, collect, open_dataset
from pmoss_datasets.catalog import load
from pmoss_datasets.evaluation import episode_seed
from pmoss_datasets.spatial.world_sets import WorldsRecipe, make_worlds
from pmoss_datasets.suite import MEASURED, SHIPPED
from pmoss_env.errors import DatasetError, DescriptionError, UnsupportedError
from tests.cli.invoking import pmoss

torch = pytest.importorskip("torch")
pytest.importorskip("matplotlib")

TOY = {"machine": "toy", "slices": 8}
SMALL = {"members": 1, "updates": 6, "width": 8, "features": 4, "demands": 2}
WORDS = [w for name, value in SMALL.items() for w in ("--set", f"{name}={value}")]
VALIDATED = ("--validate-every", "2", "--validate-episodes", "2")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    recipe = Recipe(env=TOY, episodes=8, reference_episodes=0)
    return collect(recipe, tmp_path_factory.mktemp("validating") / "data").path


def arrays_of(path: Path) -> dict[str, np.ndarray]:
    return checkpoints.read(path)[1]


def same(first: Path, second: Path) -> bool:
    mine, theirs = arrays_of(first), arrays_of(second)
    return mine.keys() == theirs.keys() and all(np.array_equal(mine[n], theirs[n]) for n in mine)


def test_scores_lie_beside_the_checkpoint_and_change_nothing(data: Path, tmp_path: Path) -> None:
    plain, out = tmp_path / "plain.safetensors", tmp_path / "out.safetensors"
    pmoss("train", "surrogate", str(data), str(plain), *WORDS)
    said = pmoss("train", "surrogate", str(data), str(out), *WORDS, *VALIDATED)
    best = checkpoints.best_path(out)
    assert str(best) in said.replace("\n", "") and same(plain, out)
    rows = read_log(rows_path(out))
    assert [row["update"] for row in rows] == [2, 4, 6]
    highest = max(rows, key=lambda row: (row["score"], row["update"]))
    agent = pmoss_agents.load(best)
    assert agent.updates == highest["update"]  # type: ignore[attr-defined]
    # The same episodes give the same score to the kept agent.
    worlds = Worlds.of(find_lesson(data, {}), 2)
    assert worlds.score(agent) == pytest.approx(highest["score"], rel=1e-5)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("out.best.safetensors", "out.safetensors"),
        *("out.validation.jsonl", "out.validation.png", "plain.safetensors"),
    ]
    out.unlink()
    again = pmoss("train", "surrogate", str(data), str(out), *VALIDATED, status=2)
    assert "out.validation.jsonl: exists already; --overwrite" in again.replace("\n", "")


def test_a_training_that_goes_on_makes_the_scores_of_one_that_never_stopped(data, tmp_path):
    lesson = find_lesson(data, {})
    rows, agents = [], []
    for stops in ((), (3,)):
        out = tmp_path / f"{len(stops)}.safetensors"
        agent = pmoss_agents.make("surrogate", **SMALL, save_every=1)
        for stop in (*stops, 6):
            validation = Validation(agent, Worlds.of(lesson, 1), out, 2)

            def until(done: int, total: int, metrics: object, stop: int = stop) -> None:
                validation(done, total, {})  # noqa: B023
                if done > stop:
                    raise KeyboardInterrupt

            try:
                agent.fit(lesson.data, progress=until, checkpoint=out)  # type: ignore[attr-defined]
            except KeyboardInterrupt:
                agent = pmoss_agents.load(out)
        rows.append([(row["update"], row["score"]) for row in read_log(rows_path(out))])
        agents.append(checkpoints.best_path(out))
    assert rows[0] == rows[1] and same(*agents)


def test_validation_episodes_are_in_no_shipped_data() -> None:
    seeds = {episode_seed(SEED, episode) for episode in range(1000)}
    for id_ in SHIPPED:
        assert seeds.isdisjoint(load(id_).column("seed").tolist())


def test_what_has_no_validation_episodes_is_refused(tmp_path: Path) -> None:
    out = str(tmp_path / "out.safetensors")
    for id_ in MEASURED:
        said = pmoss("train", "surrogate", id_, out, *VALIDATED, status=2)
        assert "has no validation episodes: leave out --validate-every: " in said.replace("\n", " ")
    assert not list(tmp_path.iterdir())
    made_up = make_worlds(WorldsRecipe("train", 1), tmp_path / "worlds").path
    with pytest.raises(UnsupportedError, match=r"no validation episodes.*holds no episodes"):
        Worlds.of(find_lesson(made_up, {}), 1)


def test_two_rules_for_the_best_checkpoint_are_refused(data: Path, tmp_path: Path) -> None:
    agent = pmoss_agents.make("decision-transformer", held_out=0.5)
    worlds = Worlds.of(find_lesson(data, {}), 1)
    with pytest.raises(DescriptionError, match=r"held_out = 0\.5: keeps the checkpoint"):
        Validation(agent, worlds, tmp_path / "a.safetensors", 1)


@pytest.mark.parametrize("agent", ["bc", "cql", "decision-transformer", "surrogate"])
def test_a_device_that_is_not_there_leaves_nothing(data, tmp_path, monkeypatch, agent):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    out, log = tmp_path / "out.safetensors", tmp_path / "log.jsonl"
    words = ("train", agent, str(data), str(out), "--log", str(log), "--set", "device=cuda")
    said = pmoss(*words, *VALIDATED, status=2)
    assert "device = 'cuda': torch finds no GPU on this machine" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("agent", ["cql", "iql", "decision-transformer"])
def test_data_without_what_an_algorithm_needs_leave_nothing(tmp_path: Path, agent: str) -> None:
    """Rewards of each step's improvement need a throughput after every step."""
    recipe = Recipe(env={**TOY, "reward": "terminal", "measure_every": 8}, episodes=4)
    source = collect(recipe, tmp_path / "data")
    assert not np.isfinite(source[0].throughput[:-1]).all()
    out, log = tmp_path / "out.safetensors", tmp_path / "log.jsonl"
    words = ("train", agent, str(source.path), str(out), "--log", str(log))
    said = pmoss(*words, "--set", "reward=improvement", *VALIDATED, status=2)
    assert "improvement" in said and "episode 0" in said
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    with pytest.raises(DatasetError, match="episode 0"):
        pmoss_agents.make(agent, reward="improvement").fit(open_dataset(source.path))  # type: ignore[attr-defined]


def test_an_agent_of_several_machines_is_validated_on_each(data: Path, tmp_path: Path) -> None:
    wider = {**TOY, "machine": "sandy-bridge"}
    other = collect(Recipe(env=wider, episodes=4, reference_episodes=0), tmp_path / "other").path
    out = tmp_path / "out.safetensors"
    words = ["--set", "updates=2", "--set", "width=32", "--set", "layers=1", "--set", "heads=1"]
    pmoss("train", "decision-transformer", str(data), str(other), str(out), *words, *VALIDATED)
    [row] = read_log(rows_path(out))
    assert np.isfinite(row["score"])
