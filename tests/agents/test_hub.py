"""Agents as folders for the hub."""

from pathlib import Path

import pytest

pytest.importorskip("yaml")
pytest.importorskip("torch")
pytest.importorskip("h5py")

import pmoss_agents
from pmoss_agents import pretrained
from pmoss_agents.hub import export
from pmoss_env.errors import DatasetError
from tests.datasets.formats.test_hub import check_sums, front_matter


def test_the_folder_of_an_agent(tmp_path: Path) -> None:
    name = f"{pretrained.PREFIX}forecaster-jobs-v2"
    card, folder = pretrained.card(name), export(name, tmp_path)
    assert folder == tmp_path / name.removeprefix(pretrained.PREFIX)
    check_sums(folder)
    facts = front_matter(folder / "README.md")
    assert facts["license"] == "apache-2.0" and facts["library_name"] == "pmoss-env"
    assert facts["pipeline_tag"] == "reinforcement-learning"
    [result] = facts["model-index"][0]["results"]
    assert result["metrics"][0]["value"] == pytest.approx(card.score.value, abs=0.01)
    assert pmoss_agents.load(folder / f"{folder.name}.safetensors").name == card.agent
    assert card.commands[0] in (folder / "README.md").read_text()
    assert export(name, tmp_path) == folder
    (folder / "SHA256SUMS").write_text("of another agent\n")
    with pytest.raises(DatasetError, match="exists already"):
        export(name, tmp_path)
