"""A training made again gives the same bits, or says in one line why it cannot."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pmoss_agents
from pmoss_agents import checkpoints
from pmoss_agents.agent import OfflineAgent
from pmoss_agents.conditions import FIRST, changed_code, conditions_of, joined
from pmoss_agents.retraining import retrain
from pmoss_datasets import Dataset, Recipe, collect
from pmoss_env.errors import CheckpointError, DatasetError, UnsupportedError
from pmoss_env.provenance import MODELLED, _code_of

pytest.importorskip("torch")

TINY: dict[str, Any] = {"members": 1, "updates": 24, "width": 8, "features": 4, "demands": 2}


@pytest.fixture(scope="module")
def data(tmp_path_factory: Any) -> Dataset:
    env = {"machine": "toy", "slices": 8}
    folder = tmp_path_factory.mktemp("data")
    return collect(Recipe(env=env, episodes=6, reference_episodes=0), folder / "data")


@pytest.fixture
def checkpoint(data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A trained agent, whose data the name of their id leads to."""
    monkeypatch.setattr("pmoss_agents.retraining.load", lambda name, root: data)
    path = tmp_path / "agent.safetensors"
    learner().fit(data, checkpoint=path)
    return path


def learner() -> OfflineAgent[Any]:
    agent = pmoss_agents.make("surrogate", **TINY)
    assert isinstance(agent, OfflineAgent)
    return agent


def altered(
    path: Path, conditions: dict[str, Any] | None = None, scale: float = 1.0, **facts: Any
) -> Path:
    """A copy of a checkpoint with other facts, of its training too, or with other weights."""
    header, arrays = checkpoints.read(path)
    header |= {"training": {**header["training"], **(conditions or {})}, **facts}
    out = path.with_name("altered.safetensors")
    weights = {name: a * np.asarray(scale, dtype=a.dtype) for name, a in arrays.items()}
    checkpoints.write(out, header, weights)
    return out


def test_a_training_gives_the_same_bits_again(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("numpy", "torch"):  # the process of the training imports none from here
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from the current folder')")
    header, _ = checkpoints.read(checkpoint)
    assert len(header["training"]["losses"]) == FIRST
    again = retrain(checkpoint)
    assert again.verdict.startswith("all bits equal with ") and not again.mismatches
    again = retrain(altered(checkpoint, scale=2.0))
    assert again.verdict == "other bits under the same conditions"
    assert any(line.endswith(": other values") for line in again.mismatches)
    # Weights are not all that an agent acts by.
    header, arrays = checkpoints.read(checkpoint)
    missing = min(arrays)
    facts = {"task": {**header["task"], "more": 1}, "values": {"updates": 3}}
    forged = altered(checkpoint, {"losses": [0.0]}, **facts)
    header, arrays = checkpoints.read(forged)
    checkpoints.write(forged, header, {name: a for name, a in arrays.items() if name != missing})
    differing = ("task", "values", "training.losses", missing)
    assert retrain(forged).mismatches == tuple(f"{name}: other values" for name in differing)


@pytest.mark.heavy
def test_elsewhere_the_first_losses_agree(checkpoint: Path) -> None:
    again = retrain(altered(checkpoint, {"torch": "1.0"}, scale=2.0))
    assert again.verdict.startswith("torch 1.0, here ") and not again.mismatches
    assert again.verdict.endswith("the first losses agree within 0.001")
    again = retrain(altered(checkpoint, {"torch": "1.0", "losses": [1.0, 2.0]}, scale=2.0))
    assert "first losses differ" in again.verdict and len(again.mismatches) == 2


def test_what_cannot_be_made_again_is_refused(checkpoint, data, tmp_path, monkeypatch):
    with pytest.raises(UnsupportedError, match="went on under other conditions"):
        retrain(altered(checkpoint, {"mixed": True}))
    trace = tmp_path / "imported"
    (tmp_path / "must_not_run.py").write_text(f"open({str(trace)!r}, 'w')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(CheckpointError, match=r"must_not_run:Agent'.*pmoss\.agents"):
        retrain(altered(checkpoint, agent="must_not_run:Agent"))
    assert not trace.exists()
    for facts, words in (
        ({"dataset": {"id": 5}}, r"dataset\.id = 5: must be a text: .* train it anew"),
        ({"dataset": {"id": "pmoss/x"}}, r"dataset\.checksum: is missing"),
        ({"dataset": ["pmoss/x"]}, r"dataset = \['pmoss/x'\]: must be a table"),
        ({"config": 5}, "config = 5: must be a table"),
        ({"training": ["mixed"]}, r"training = \['mixed'\]: must be a table"),
        ({"training": {"code": {}, "losses": []}}, r"training\.code\.\w+: is missing"),
    ):
        with pytest.raises(CheckpointError, match=f"altered.safetensors: {words}"):
            retrain(altered(checkpoint, **facts))
    other = collect(
        Recipe(env={"machine": "toy", "slices": 8}, episodes=2, reference_episodes=0),
        tmp_path / "d",
    )
    monkeypatch.setattr("pmoss_agents.retraining.load", lambda name, root: other)
    with pytest.raises(DatasetError, match="build it anew"):
        retrain(checkpoint)


def test_a_training_goes_on_with_its_own_code_alone(checkpoint: Path, data: Dataset) -> None:
    header, _ = checkpoints.read(checkpoint)
    code = header["training"]["code"]
    changed = {"code": {**code, "digests": {**code["digests"], "pmoss_agents/spatial": "0" * 16}}}
    assert changed_code(changed) == ["pmoss_agents/spatial"] and changed_code({}) == []
    agent = pmoss_agents.load(altered(checkpoint, changed))
    assert isinstance(agent, OfflineAgent)
    with pytest.raises(CheckpointError, match="pmoss_agents/spatial changed since"):
        agent.fit(data)
    agent.fit(data, allow_other_code=True)
    assert agent.training["mixed"]
    form_1 = _code_of(["pmoss_agents.spatial.surrogate"], MODELLED, 1)
    before = {**conditions_of("pmoss_agents.spatial.surrogate"), "code": form_1}
    assert "mixed" not in joined(before, conditions_of("pmoss_agents.spatial.surrogate"))
    again = pmoss_agents.load(checkpoint)
    assert isinstance(again, OfflineAgent)
    again.fit(data)
    assert "mixed" not in again.training and again.training == header["training"]
