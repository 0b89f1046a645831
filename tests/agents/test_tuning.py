"""Trials go on as if nothing had stopped them, and OUT holds the best agent."""

from pathlib import Path

import pytest

import pmoss_agents
from pmoss_agents import tuning, validating
from pmoss_agents.learning import find_lesson
from pmoss_agents.tuning import tune
from pmoss_agents.validating import Worlds
from pmoss_datasets import Recipe, collect
from pmoss_env.errors import DatasetError, MissingExtraError, UnknownNameError
from tests.cli.invoking import pmoss

TOY = {"machine": "toy", "slices": 8}
SMALL = {"members": 1, "updates": 2, "width": 8, "features": 4}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for package in ("torch", "optuna", "matplotlib"):
        pytest.importorskip(package, reason="the extra tuning is not installed")
    recipe = Recipe(env=TOY, episodes=8, reference_episodes=0)
    return collect(recipe, tmp_path_factory.mktemp("tuning") / "data").path


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validating, "_BUDGET", 20)
    monkeypatch.setattr(validating, "_RANDOM", 5)


def tuned(data: Path, out: Path, trials: int, agent: str = "surrogate") -> tuple[dict, list]:
    lesson, rows = find_lesson(data, {}), []
    best = tune(
        agent,
        lesson,
        out,
        trials,
        worlds=Worlds.of(lesson, 1),
        every=1,
        changes=SMALL,
        progress=lambda done, total, score, settings: rows.append((score, settings)),
    )
    return best, rows


def test_trials_that_go_on_are_those_of_one_call(data: Path, tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole.safetensors", tmp_path / "parts.safetensors"
    best, rows = tuned(data, whole, 4)
    _, first = tuned(data, parts, 2)
    resumed, second = tuned(data, parts, 4)
    assert (first + second, resumed) == (rows, best)
    assert rows[0][1] == {n: getattr(pmoss_agents.make("surrogate").config, n) for n in rows[0][1]}
    assert best["score"] == max(score for score, _ in rows if score is not None)
    kept = pmoss_agents.load(whole).config
    assert all(getattr(kept, name) == best[name] for name in rows[0][1])
    assert kept.members == 1
    assert whole.read_bytes() == parts.read_bytes()
    with pytest.raises(DatasetError, match="holds trials of another agent or task"):
        tuned(data, parts, 5, agent="pair-policy")
    names = {"whole.safetensors", "whole.trials.jsonl", "parts.safetensors", "parts.trials.jsonl"}
    assert {path.name for path in tmp_path.iterdir()} == names


def test_the_command_names_what_it_lacks(data, tmp_path, monkeypatch):
    out = tmp_path / "mine.safetensors"
    said = pmoss("train", "surrogate", str(data), str(out), "--trials", "2", status=2)
    assert "give --validate-every" in said
    with pytest.raises(UnknownNameError, match="range of settings 'maskable-ppo'"):
        tuned(data, out, 1, agent="maskable-ppo")
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    with pytest.raises(MissingExtraError, match=r"'\.\[tuning\]'"):
        tuning.tune("surrogate", find_lesson(data, {}), out, 1, worlds=None, every=1)
