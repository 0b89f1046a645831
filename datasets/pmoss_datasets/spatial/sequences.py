"""Datasets in the form that learners want: whole episodes as PyTorch sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pmoss_datasets.formats.episodes import Chosen, numbers_of, worth
from pmoss_datasets.spatial.expansion import Expander, returns_to_go
from pmoss_datasets.storage import Dataset
from pmoss_env.errors import DatasetError, DescriptionError
from pmoss_env.extras import require

if TYPE_CHECKING:
    from torch import Tensor


class SequenceView:
    """Whole episodes as tensors, for sequence models; a map-style PyTorch dataset.

    An item is a dict (T steps, r * c tiles, H counters, M entries of ``meta``):

    | key | shape, dtype | meaning |
    |---|---|---|
    | `view_mask`, `position_mask` | (T, r * c) float32 | as in the observation |
    | `machine_view` | (T, r * c, H) float32 | as in the observation, million counts per second |
    | `incumbent_view` | (1, r * c, H) float32 | the same at every step, kept once |
    | `slice_view` | (T, H) float32 | as in the observation |
    | `meta` | (M,) float32 | the same at every step, kept once |
    | `returns` | (T,) float32 | return-to-go before each step, Mq/s |
    | `actions` | (T,) int64 | tile chosen |

    All episodes are equally long, so nothing is padded. ``slice_view`` and ``incumbent_view`` are
    absent from datasets collected with ``observation="paper"``. ``observation="complete"`` adds
    ``slice_counters`` (slices, H) float32, ``incumbent_tiles`` (slices,) int64, both kept once,
    and ``slice_tiles`` (T, slices) int64.
    """

    def __init__(self, dataset: Dataset, reward: str = "terminal") -> None:
        """Expands nothing yet.

        Raises:
            MissingExtraError: torch is not installed.
            UnknownNameError: another mode of rewards.
            DatasetError: the observations of its episodes lack the views of the machine.
        """
        require("torch")
        import torch

        expander = dataset.expander()
        if not isinstance(expander, Expander) or "machine_view" not in expander.space.spaces:
            raise DatasetError(
                f"{dataset.path}: its observations lack machine_view: SequenceView takes episodes "
                "of spatial scheduling with observation='full', 'paper' or 'complete'"
            )
        if dataset.metadata.env_kwargs.get("actions") == "core_node":
            raise DatasetError(
                f"{dataset.path}: its actions are pairs of tile and node: SequenceView takes those "
                "that are tiles, actions='core'; D4RLView takes any"
            )
        self._torch = torch
        self._dataset = dataset
        self._reward = dataset.reward(reward)
        self._expander = expander

    def __reduce__(self) -> tuple[type[SequenceView], tuple[Dataset, str]]:
        """Copies, as the workers of a loader get, are made from the same dataset."""
        return type(self), (self._dataset, self._reward)

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        """One episode; raises IndexError past the end and DatasetError if it is damaged."""
        arrays = self._arrays(index)
        return {key: self._torch.from_numpy(value) for key, value in arrays.items()}

    def batch(self, indices: Chosen) -> dict[str, Tensor]:
        """Several episodes, with a leading batch axis; DescriptionError if none."""
        numbers = numbers_of(self._dataset, indices)
        if not numbers:
            raise DescriptionError("indices: none: a batch holds at least one episode")
        rows = [self._arrays(number) for number in numbers]
        return {key: self._torch.from_numpy(np.stack([r[key] for r in rows])) for key in rows[0]}

    def _arrays(self, index: int) -> dict[str, np.ndarray[Any, np.dtype[Any]]]:
        episode = self._dataset[index]
        observations = self._expander.observations(episode, copies=False)
        steps, counters = episode.slices, observations["machine_view"].shape[-1]
        arrays = {
            "view_mask": observations["view_mask"].reshape(steps, -1).astype(np.float32),
            "position_mask": observations["position_mask"].reshape(steps, -1).astype(np.float32),
            "machine_view": observations["machine_view"].reshape(steps, -1, counters),
            "meta": observations["meta"][0].copy(),
            "returns": worth(self._dataset, index, self._reward, returns_to_go).astype(np.float32),
            "actions": episode.actions.astype(np.int64),
        }
        if "slice_view" in observations:
            arrays["slice_view"] = observations["slice_view"]
            arrays["incumbent_view"] = (
                observations["incumbent_view"][:1].reshape(1, -1, counters).copy()
            )
        if "slice_counters" in observations:
            arrays["slice_counters"] = observations["slice_counters"][0].copy()
            arrays["incumbent_tiles"] = observations["incumbent_tiles"][0].astype(np.int64)
            arrays["slice_tiles"] = observations["slice_tiles"].astype(np.int64)
        return arrays
