"""The quality of a dataset's trajectories, and their coverage of states and actions.

Both measures follow Schweighofer et al., A Dataset Perspective on Offline Reinforcement Learning
(2022). Trajectory quality is the mean return between that of random actions, 0, and that of the
best known policy, 1. State-action coverage counts different pairs of state and action, relative to
a reference dataset. Here the reference has the same states with legal actions drawn by chance.

States with counters never repeat. So a state counts as the signs of random projections of its
observation (Charikar, Similarity Estimation Techniques from Rounding Algorithms, 2002).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from pmoss_datasets.interfaces import Expander
from pmoss_datasets.schema import INSTANCE_FIELDS, Array
from pmoss_datasets.storage import Dataset
from pmoss_env.errors import DatasetError
from pmoss_env.types import Float64Array

#: Signs that make a state; episodes that are looked at, evenly spread; those that set the scale.
_SIGNS, _EPISODES, _SCALE = 12, 200, 10
#: Standardised values are counted in such steps: sums of whole numbers are exact anywhere.
_STEPS = 16


def trajectory_quality(dataset: Dataset) -> float | None:
    """Mean outcome, 0 = random actions and 1 = the best known policy; None without references.

    None, too, in domains whose scores of 0 are of another policy than random actions.

    The references are means over other episodes. Where the dataset has them, those of each
    episode's own instance are taken.
    """
    if (relative := relative_outcomes(dataset)) is not None:
        return None if np.isnan(relative).all() else float(np.nanmean(relative))
    domain, scores = dataset.domain, dataset.metadata.reference_scores
    if len(domain.references) < 2 or domain.references[0] != "random" or not scores:
        return None
    low, high = (float(scores[name]["mean"]) for name in domain.references[:2])
    if high == low:
        return None
    return float((dataset.column(domain.outcome).mean() - low) / (high - low))


def relative_outcomes(dataset: Dataset) -> Float64Array | None:
    """(N,) float64: outcomes relative to the instance, 0 = random actions and 1 = search.

    An easy instance gives high throughputs to any schedule. Relative to what chance and search
    reach on the same instance, only good actions count. NaN where both reach the same. None of a
    dataset that does not hold them.
    """
    if not set(INSTANCE_FIELDS) <= set(dataset.metadata.optional_fields):
        return None
    low, high = (dataset.column(name) for name in INSTANCE_FIELDS)
    outcome = dataset.column(dataset.domain.outcome)
    room = high - low
    result = np.full(len(dataset), np.nan)
    # What search finds may differ from chance by a rounding alone.
    np.divide(outcome - low, room, out=result, where=room > 1e-9 * np.abs(high))
    return result


@lru_cache(maxsize=1)  # an export asks three times in a row: for the index and for both cards
def state_action_coverage(dataset: Dataset) -> float:
    """Different pairs of state and action, per pair that chance shows in the same states.

    1 = as wide as random legal actions. Of a dataset of more episodes, 200 are looked at.

    Raises:
        DatasetError: it has no episodes.
    """
    if not len(dataset):
        raise DatasetError(f"{dataset.path}: has no episodes")
    chosen = np.unique(np.linspace(0, len(dataset) - 1, _EPISODES).astype(np.int64))
    expander = dataset.expander()
    scale = [_flat(expander, dataset[int(i)]) for i in chosen[:_SCALE]]
    rows = np.concatenate(scale)
    middle, spread = rows.mean(0), rows.std(0)
    varies = spread > 0
    rng = np.random.default_rng(0)
    projection = rng.choice([-1.0, 1.0], size=(int(varies.sum()), _SIGNS))
    weights = 2 ** np.arange(_SIGNS)
    pairs: set[tuple[int, int]] = set()
    widest: set[tuple[int, int]] = set()
    for number, index in enumerate(chosen.tolist()):
        episode = dataset[index]
        states_flat = scale[number] if number < len(scale) else _flat(expander, episode)
        level = (states_flat[:, varies] - middle[varies]) / spread[varies]
        whole = np.round(_STEPS * np.clip(level, -8, 8))
        states = ((whole @ projection > 0) * weights).sum(1)
        masks = np.asarray(expander.masks(episode)) > 0
        actions = np.asarray(episode.actions)
        drawn = np.where(masks, rng.random(masks.shape), -1.0).argmax(1)
        pairs.update(zip(states.tolist(), actions.tolist(), strict=True))
        widest.update(zip(states.tolist(), drawn.tolist(), strict=True))
    return len(pairs) / len(widest)


def _flat(expander: Expander, episode: Any) -> Array:
    """(steps, features) float64: everything that an episode showed."""
    shown = expander.observations(episode, copies=False)
    parts = [np.asarray(part, dtype=np.float64) for part in shown.values()]
    return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)
