"""Agents that ship: cards, names, and how damaged or foreign ones are answered."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("safetensors")

import pmoss_agents
from pmoss_agents import checkpoints, pretrained
from pmoss_env.errors import CheckpointError, UnknownNameError

NAMES = pretrained.names()
#: Bytes of all that ships together: it is in every package.
ALL = 12 << 20


def test_what_ships_is_small() -> None:
    sizes = [pretrained.find(name).stat().st_size for name in NAMES]
    assert len(NAMES) >= 2 and max(sizes) <= pretrained.MAX_BYTES and sum(sizes) <= ALL


@pytest.mark.parametrize("name", NAMES)
def test_a_card_describes_its_agent(name: str) -> None:
    card = pretrained.card(name)
    agent = pmoss_agents.load(name)
    path = pretrained.find(name)
    assert (card.name, card.agent, card.domain) == (name, agent.name, agent.domain)
    assert card.size == path.stat().st_size
    assert agent.dataset["checksum"] == card.dataset["checksum"]
    assert card.seed == agent.config.seed and card.updates == agent.updates  # type: ignore[attr-defined]
    assert card.score.low <= card.score.value <= card.score.high
    assert not any(command.startswith("pmoss benchmark") for command in card.commands)
    # That command takes made-up worlds alone.
    assert card.commands[-1].startswith("pmoss dev pretrained") == ("worlds" in card.dataset)
    _, arrays = checkpoints.read(path)
    assert not [key for key in arrays if key.startswith("optimiser/")]
    assert (Path(__file__).parents[2] / card.score.results).exists()


def test_unknown_names_are_answered_with_those_there_are() -> None:
    for find in (pmoss_agents.load, pmoss_agents.find_policy, pretrained.card):
        with pytest.raises(UnknownNameError, match=NAMES[0]):
            find("pmoss/no-such-agent-v0")


def test_damage_is_found_before_anything_is_loaded(tmp_path, monkeypatch):
    path = pretrained.find(NAMES[0])
    shutil.copy(path, tmp_path)
    shutil.copy(path.with_suffix(pretrained.CARD), tmp_path)
    monkeypatch.setattr(pretrained, "FOLDER", tmp_path)
    copied = tmp_path / path.name
    content = bytearray(copied.read_bytes())
    content[-1] ^= 1
    copied.write_bytes(content)
    with pytest.raises(CheckpointError, match="is damaged: its SHA-256"):
        pmoss_agents.load(NAMES[0])
    copied.unlink()
    with pytest.raises(CheckpointError, match="cannot be read"):
        pmoss_agents.load(NAMES[0])
    card = json.loads((tmp_path / path.with_suffix(pretrained.CARD).name).read_text())
    for wrong in ({"score": 1}, {"size": "big"}):
        copied.with_suffix(pretrained.CARD).write_text(json.dumps({**card, **wrong}))
        with pytest.raises(CheckpointError, match="is no card"):
            pretrained.card(NAMES[0])


def test_slim_keeps_what_acts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    header, arrays = checkpoints.read(pretrained.find(NAMES[0]))
    header.pop("code_version")
    fat = tmp_path / "fat.safetensors"
    checkpoints.write(fat, header, {**arrays, "optimiser/0/exp_avg": np.zeros(3, np.float32)})
    pretrained.slim(fat, tmp_path / "slim.safetensors")
    assert set(checkpoints.read(tmp_path / "slim.safetensors")[1]) == set(arrays)
    size = sum(array.nbytes for array in arrays.values())
    monkeypatch.setattr(pretrained, "MAX_BYTES", size - 1)
    pretrained.slim(fat, tmp_path / "half.safetensors")
    assert (tmp_path / "half.safetensors").stat().st_size < 0.6 * size
    agent, half = (pmoss_agents.load(tmp_path / f"{name}.safetensors") for name in ("slim", "half"))
    for name, array in half._state()[0].items():
        np.testing.assert_allclose(array, agent._state()[0][name], rtol=1e-3, atol=1e-6)
    monkeypatch.setattr(pretrained, "MAX_BYTES", 1000)
    with pytest.raises(CheckpointError, match="1000 may ship"):
        pretrained.slim(fat, tmp_path / "other.safetensors")
    assert not (tmp_path / "other.safetensors").exists()


def test_cards_are_kept_as_they_are(tmp_path: Path) -> None:
    card = pretrained.card(NAMES[0])
    pretrained.write_card(tmp_path / "card.json", card)
    assert dataclasses.asdict(card) == {
        **json.loads((tmp_path / "card.json").read_text()),
        "commands": card.commands,
    }
    text = "\n".join(pretrained.in_words(card))
    assert card.licence in text and card.sha256 in text and card.commands[0] in text
