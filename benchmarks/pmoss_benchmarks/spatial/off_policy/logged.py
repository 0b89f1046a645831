"""Logged states with their features, and policies whose every probability is known on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from pmoss_datasets import Dataset
from pmoss_datasets.spatial.expansion import Expander, rewards
from pmoss_env.types import COUNTER_INDEX, Float32Array, Float64Array, Int32Array

_BUSY, _ELAPSED = COUNTER_INDEX["task_clock_us"], COUNTER_INDEX["elapsed_us"]
#: Features of a (state, worker) pair, all from the observation alone.
FEATURES = (
    "placed load",
    "load that is left there",
    "slowness",
    "slice's load",
    "load with the slice",
    "time with the slice",
    "greatest time placed",
    "mean time placed",
    "step",
    "was there",
)


@dataclass(frozen=True)
class Logged:
    """Steps of a dataset in which every legal choice has known features and a known reward.

    N episodes, T steps, W workers, F features.

    Attributes:
        features: (N, T, W, F) float32, see FEATURES, scaled to about 1.
        chosen: (N, T) int32, position of the chosen core among the workers.
        propensity: (N, T) float64, its probability under the behaviour.
        rewards: (N, T) float64, improvement of each step, Mq/s.
        truth: (N, T, W) float64, improvement had each worker core been chosen, Mq/s.
    """

    features: Float32Array
    chosen: Int32Array
    propensity: Float64Array
    rewards: Float64Array
    truth: Float64Array


#: probabilities of the workers, (..., W), from features (..., W, F).
TargetPolicy = Callable[[Float32Array], Float64Array]


def log(dataset: Dataset) -> Logged:
    """What a dataset with counterfactuals holds."""
    expander, workers = Expander(dataset), dataset.machine.workers
    tiles = dataset.machine.tile_of_core[workers]
    position = np.full(dataset.machine.tiles, -1, dtype=np.int32)
    position[tiles] = np.arange(workers.size)
    features, gains, truths = [], [], []
    for episode in dataset:
        seen = expander.observations(episode, copies=False)
        steps = episode.slices
        placed = seen["machine_view"].reshape(steps, -1, seen["machine_view"].shape[-1])
        before = seen["incumbent_view"].reshape(steps, -1, placed.shape[-1])
        features.append(
            pair_features(
                placed[:, tiles], before[:, tiles], seen["slice_view"], seen["slice"][:, 0]
            )
        )
        gains.append(rewards(episode, "improvement"))
        assert episode.counterfactual is not None
        start = np.concatenate([[episode.incumbent_throughput], episode.throughput[:-1]])
        truths.append(episode.counterfactual - start[:, None])
    return Logged(
        features=np.array(features),
        chosen=position[dataset.column("actions")],
        propensity=dataset.column("propensity").astype(np.float64),
        rewards=np.array(gains),
        truth=np.array(truths),
    )


def pair_features(
    placed: Float32Array, before: Float32Array, slice_: Float32Array, position: Float32Array
) -> Float32Array:
    """(T, W, F) features of every worker at every step.

    Args:
        placed: (T, W, H) counters of the slices placed on each worker.
        before: (T, W, H) counters of each worker under the incumbent schedule.
        slice_: (T, H) counters of the next slice.
        position: (T,) share of the slices that are placed.
    """
    workers = placed.shape[1]
    scale = before[0, :, _BUSY].sum() / workers
    busy, was = placed[..., _BUSY] / scale, before[..., _BUSY] / scale
    ratio = before[..., _ELAPSED].astype(np.float64)
    slow = np.divide(ratio, before[..., _BUSY], out=np.ones_like(ratio), where=was > 0)
    own = np.repeat(slice_[:, None, _BUSY] / scale, workers, axis=1)
    time = busy * slow
    step = np.repeat(position[:, None], workers, axis=1)
    columns = (
        busy,
        np.maximum(was - busy, 0),
        slow,
        own,
        busy + own,
        (busy + own) * slow,
        np.repeat(time.max(axis=1)[:, None], workers, axis=1),
        np.repeat(time.mean(axis=1)[:, None], workers, axis=1),
        step,
        was,
    )
    return np.stack(columns, axis=-1).astype(np.float32)


def soft(column: str, temperature: float, sign: float = -1.0) -> TargetPolicy:
    """A policy that prefers workers with little (sign -1) or much of a feature."""
    index = FEATURES.index(column)

    def probabilities(features: Float32Array) -> Float64Array:
        score = sign * features[..., index].astype(np.float64) / temperature
        weight = np.exp(score - score.max(axis=-1, keepdims=True))
        shares: Float64Array = weight / weight.sum(axis=-1, keepdims=True)
        return shares

    return probabilities


#: What is estimated: from nearly the behaviour's own chances to far from them, good and bad.
POLICIES: Mapping[str, TargetPolicy] = {
    "near uniform": soft("time with the slice", 3.0),
    "balances time": soft("time with the slice", 0.3),
    "balances time, greedily": soft("time with the slice", 0.03),
    "balances load, blind to speed": soft("load with the slice", 0.1),
    "crowds the slow cores": soft("slowness", 0.3, sign=1.0),
}
