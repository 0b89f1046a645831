"""Data that the kernel left elsewhere: a dataset, its card and a rollout's line say so."""

from typing import Any

import pytest

from pmoss_datasets import Recipe, collect
from pmoss_datasets.card import card
from pmoss_datasets.spatial import playing
from pmoss_datasets.spatial.rollouts import in_words

ROW: dict[str, Any] = {
    "incumbent_mq_per_s": 1.0,
    "final_mq_per_s": 2.0,
    "incumbent_p99_us": 3.0,
    "p99_us": 4.0,
    "moved_slices": 3,
    "cores": [0] * 8,
    "restored": None,
}


def _provenance(*slices: int) -> dict[str, Any]:
    return {"data": {"not_in_place": {str(slice_): "the node is full" for slice_ in slices}}}


def test_a_dataset_tells_of_every_episode(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # The incumbent and the end of each episode; the last has all data in place.
    counts = iter([0, 2, 1, 0, 0, 0])
    monkeypatch.setattr(playing, "misplaced", lambda provenance: next(counts))
    recipe = Recipe(env={"machine": "toy", "slices": 8}, episodes=3, reference_episodes=0)
    dataset = collect(recipe, tmp_path / "data")
    assert dataset.metadata.provenance["slices_not_in_place"] == {"0": [0, 2], "1": [1, 0]}
    assert "In 2 of 3 episodes the kernel had not put the data" in card(dataset)


def test_a_rollout_says_that_data_stayed_elsewhere() -> None:
    sentence = in_words({**ROW, "provenance": _provenance(1, 2, 3)})
    assert "data of 3 slices are not where the schedule wants them" in sentence
    assert "not where" not in in_words({**ROW, "provenance": _provenance()})
