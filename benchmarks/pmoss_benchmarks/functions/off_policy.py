"""Estimates of a policy's value from logged data, held against a truth that is no estimate.

A dataset with counterfactuals holds what every other core would have given at each step. So the
value of any policy on the logged states is a sum, and that of whole episodes is played.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
import torch
from torch import nn

from pmoss_benchmarks.study.function import Cell, Row, Rows, Run
from pmoss_benchmarks.study.tables import TableOfRows
from pmoss_datasets import Behaviour, Dataset, Recipe, collect
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
#: Estimators that train a network.
NETWORKS = ("direct model", "doubly robust", "fitted Q evaluation", "direct model, rolled out")
#: Probabilities of the workers, (..., W), from features (..., W, F).
TargetPolicy = Callable[[Float32Array], Float64Array]


@dataclass(frozen=True)
class Networks:
    """How the networks are trained.

    Attributes:
        width: of two hidden layers.
        updates: gradient steps of the direct model.
        rounds: fitted iterations of FQE, each towards the values of the one before.
        updates_per_round: gradient steps within one.
        batch: steps per gradient step.
        learning_rate: of Adam.
    """

    width: int = 48
    updates: int = 1000
    rounds: int = 40
    updates_per_round: int = 40
    batch: int = 256
    learning_rate: float = 2e-3


@dataclass(frozen=True)
class Settings:
    """What the rows depend on.

    Attributes:
        tasks: by machine the slices of the index.
        interference: family of co-tenants.
        episodes: per data set, placed uniformly at random, so that every chance is known.
        seeds: of data sets and networks; errors are means over them.
        rollouts: of each policy from each logged start, which give the truth of whole episodes.
        networks: how they are trained.
    """

    AXES: ClassVar = ("tasks",)

    tasks: dict[str, int]
    interference: str = "busy_core"
    episodes: int = 60
    seeds: tuple[int, ...] = (0, 1, 2)
    rollouts: int = 1
    networks: Networks = field(default_factory=Networks)


def cells(settings: Settings) -> list[Cell]:
    """The tasks."""
    return [{"machine": name, "slices": slices} for name, slices in settings.tasks.items()]


def measure(run: Run, cell: Cell) -> Row:
    """The row of a task.

    Returns:
        ``estimates``, of each policy and horizon: "one step" on the logged states, or "whole
        episode" from the logged starts. Each has the ``truth``, the value of the ``behaviour``, and
        by estimator the mean ``estimate``, all in Mq/s. ``error`` is the root of the mean square
        error over the data sets. ``relative_error`` divides it by the distance of the truth from
        the behaviour's value: 1 is no better than the mean of the data.
    """
    settings = run.settings
    of_seeds = []
    with tempfile.TemporaryDirectory() as scratch:
        for seed in settings.seeds:
            recipe = Recipe(
                env={**cell, "interference": settings.interference},
                episodes=settings.episodes,
                seed=seed,
                tier="logged",
                behaviours=(Behaviour("random"),),
                reference_episodes=0,
                counterfactuals=True,
            )
            dataset = collect(recipe, Path(scratch) / str(seed))
            of_seeds.append(_of_data_set(dataset, settings, seed))
    return {"estimates": [_value(key, [values[key] for values in of_seeds]) for key in of_seeds[0]]}


def again(run: Run, row: Row) -> Row:
    """The row made anew; what networks estimate depends on the CPU, and stays as it is stored."""
    remade = measure(run, {key: row[key] for key in ("machine", "slices")})
    for value, stored in zip(remade["estimates"], row["estimates"], strict=True):
        kept = {name: one for name, one in stored["estimators"].items() if name in NETWORKS}
        value["estimators"] = {**value["estimators"], **kept}
    return remade


#: The truth, the behaviour's own value, and the estimates.
_Values = tuple[float, float, dict[str, float]]


def _of_data_set(dataset: Dataset, settings: Settings, seed: int) -> dict[tuple[str, str], _Values]:
    """By policy and horizon."""
    data = log(dataset)
    model = DirectModel(data, settings.networks, seed)
    values: dict[tuple[str, str], _Values] = {}
    for name, policy in POLICIES.items():
        # Every other choice is known as well: the truth is a sum, no estimate.
        exact = float((policy(data.features) * data.truth).sum(axis=2).mean())
        own = float(data.rewards.mean())
        values[name, "one step"] = (exact, own, one_step(data, policy, model))
        returns, predicted = _rollouts(dataset, policy, settings.rollouts, seed, model)
        estimates = whole_episode(data, policy, settings.networks, seed)
        estimates["direct model, rolled out"] = float(predicted.mean())
        own = float(data.rewards.sum(axis=1).mean())
        values[name, "whole episode"] = (float(returns.mean()), own, estimates)
    return values


def _value(key: tuple[str, str], of_seeds: Sequence[_Values]) -> dict[str, Any]:
    truth, own = (np.array([each[number] for each in of_seeds]) for number in (0, 1))
    distance = float(np.sqrt(np.mean((truth - own) ** 2)))
    estimates = {}
    for estimator in of_seeds[0][2]:
        values = np.array([each[2][estimator] for each in of_seeds])
        error = float(np.sqrt(np.mean((values - truth) ** 2)))
        estimates[estimator] = {
            "estimate": float(values.mean()),
            "error": error,
            "relative_error": error / distance if distance else None,
        }
    policy, horizon = key
    return {
        "policy": policy,
        "horizon": horizon,
        "behaviour": float(own.mean()),
        "truth": float(truth.mean()),
        "estimators": estimates,
    }


def _rollouts(
    dataset: Dataset, policy: TargetPolicy, repeats: int, seed: int, model: DirectModel
) -> tuple[Float64Array, Float64Array]:
    """Returns of the policy from the logged starts, and what the direct model says of each.

    The direct model may use that where a slice goes is known beforehand: it lacks the rewards only.
    """
    rng = np.random.default_rng([seed, 1])
    tiles = dataset.machine.tile_of_core[dataset.machine.workers]
    paid, predicted = [], []
    kwargs = {**dataset.metadata.env_kwargs, "reward": "improvement"}
    with closing(gymnasium.make("pmoss/SpatialScheduling-v0", **kwargs)) as env:
        for episode in dataset:
            for _ in range(repeats):
                observation, _ = env.reset(seed=episode.seed)
                total, guess, ended = 0.0, 0.0, False
                while not ended:
                    counters = observation["slice_view"].size
                    features = pair_features(
                        observation["machine_view"].reshape(-1, counters)[None, tiles],
                        observation["incumbent_view"].reshape(-1, counters)[None, tiles],
                        observation["slice_view"][None],
                        observation["slice"],
                    )
                    worker = int(rng.choice(tiles.size, p=policy(features)[0]))
                    guess += float(model.predict(features)[0, worker])
                    observation, reward, ended, _, _ = env.step(int(tiles[worker]))
                    total += float(reward)
                paid.append(total)
                predicted.append(guess)
    return np.array(paid), np.array(predicted)


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


def log(dataset: Dataset) -> Logged:
    """What a dataset with counterfactuals holds."""
    expander, workers = Expander(dataset), dataset.machine.workers
    tiles = dataset.machine.tile_of_core[workers]
    position = np.full(dataset.machine.tiles, -1, dtype=np.int32)
    position[tiles] = np.arange(workers.size)
    features, gains, truths = [], [], []
    for episode in dataset:
        views = expander.observations(episode, copies=False)
        steps = episode.slices
        placed = views["machine_view"].reshape(steps, -1, views["machine_view"].shape[-1])
        before = views["incumbent_view"].reshape(steps, -1, placed.shape[-1])
        features.append(
            pair_features(
                placed[:, tiles], before[:, tiles], views["slice_view"], views["slice"][:, 0]
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
    columns = (
        busy,
        np.maximum(was - busy, 0),
        slow,
        own,
        busy + own,
        (busy + own) * slow,
        np.repeat(time.max(axis=1)[:, None], workers, axis=1),
        np.repeat(time.mean(axis=1)[:, None], workers, axis=1),
        np.repeat(position[:, None], workers, axis=1),
        was,
    )
    return np.stack(columns, axis=-1).astype(np.float32)


def _soft(column: str, temperature: float, sign: float = -1.0) -> TargetPolicy:
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
    "near uniform": _soft("time with the slice", 3.0),
    "balances time": _soft("time with the slice", 0.3),
    "balances time, greedily": _soft("time with the slice", 0.03),
    "balances load, blind to speed": _soft("load with the slice", 0.1),
    "crowds the slow cores": _soft("slowness", 0.3, sign=1.0),
}


def _weights(data: Logged, policy: TargetPolicy) -> tuple[Float64Array, Float64Array]:
    """Probabilities (N, T, W) of the policy, and its ratio to the behaviour's (N, T)."""
    shares = policy(data.features)
    chosen = np.take_along_axis(shares, data.chosen[..., None], axis=2)[..., 0]
    return shares, chosen / data.propensity


def one_step(data: Logged, policy: TargetPolicy, model: DirectModel) -> dict[str, float]:
    """Estimates of the mean improvement of one step of the policy on the logged states, Mq/s."""
    shares, ratio = _weights(data, policy)
    predicted = model.predict(data.features)
    direct = (shares * predicted).sum(axis=2)
    chosen = np.take_along_axis(predicted, data.chosen[..., None], axis=2)[..., 0]
    return {
        "importance sampling": float((ratio * data.rewards).mean()),
        "self-normalised": float((ratio * data.rewards).sum() / ratio.sum()),
        "direct model": float(direct.mean()),
        "doubly robust": float((direct + ratio * (data.rewards - chosen)).mean()),
    }


def whole_episode(
    data: Logged, policy: TargetPolicy, networks: Networks, seed: int
) -> dict[str, float]:
    """Estimates of the policy's mean return from the logged first states, Mq/s."""
    _, ratio = _weights(data, policy)
    product = np.cumprod(ratio, axis=1)
    total = product.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        weighted = np.where(total > 0, (product * data.rewards).sum(axis=0) / total, 0.0)
    return {
        "importance sampling, per decision": float((product * data.rewards).sum(axis=1).mean()),
        "self-normalised, per decision": float(weighted.sum()),
        "fitted Q evaluation": fitted_q(data, policy, networks, seed),
    }


class DirectModel:
    """A network that predicts each step's improvement from the features of state and worker."""

    def __init__(self, data: Logged, networks: Networks, seed: int) -> None:
        """Fits it to the logged choices."""
        self._scale = float(np.abs(data.rewards).mean()) or 1.0
        self._network = _Network(data, networks, seed)
        self._network.fit(data.rewards / self._scale, networks.updates)

    def predict(self, features: Float32Array) -> Float64Array:
        """(..., W) predicted improvements, Mq/s, from features (..., W, F)."""
        return self._network.predict(features) * self._scale


def fitted_q(data: Logged, policy: TargetPolicy, networks: Networks, seed: int) -> float:
    """FQE: the return of following the policy, fitted backwards from the logged transitions."""
    shares, _ = _weights(data, policy)
    scale = float(np.abs(data.rewards).sum(axis=1).mean()) or 1.0
    network = _Network(data, networks, seed)
    gains = data.rewards / scale
    for _ in range(networks.rounds):
        values = (shares * network.predict(data.features)).sum(axis=2)
        following = np.concatenate([values[:, 1:], np.zeros_like(values[:, :1])], axis=1)
        network.fit(gains + following, networks.updates_per_round)
    first = (shares[:, 0] * network.predict(data.features[:, 0])).sum(axis=1)
    return float(first.mean() * scale)


class _Network:
    """A number for each feature vector, fitted to the logged choices."""

    def __init__(self, data: Logged, networks: Networks, seed: int) -> None:
        self._options, width = networks, networks.width
        self._generator = torch.Generator().manual_seed(seed)
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self._layers = nn.Sequential(
                *(nn.Linear(len(FEATURES), width), nn.ReLU()),
                *(nn.Linear(width, width), nn.ReLU()),
                nn.Linear(width, 1),
            )
        chosen = np.take_along_axis(data.features, data.chosen[..., None, None], axis=2)
        self._inputs = torch.from_numpy(chosen.reshape(-1, len(FEATURES)))

    def fit(self, targets: Float64Array, updates: int) -> None:
        """Fits it to targets (N, T)."""
        wanted = torch.from_numpy(targets.ravel().astype(np.float32))
        optimizer = torch.optim.Adam(self._layers.parameters(), lr=self._options.learning_rate)
        for _ in range(updates):
            rows = torch.randint(len(wanted), (self._options.batch,), generator=self._generator)
            loss = (self._layers(self._inputs[rows])[:, 0] - wanted[rows]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    def predict(self, features: Float32Array) -> Float64Array:
        """(...) numbers from features (..., F)."""
        with torch.no_grad():
            predicted: Float32Array = self._layers(torch.from_numpy(features))[..., 0].numpy()
        return predicted.astype(np.float64)


def _errors(rows: Rows) -> TableOfRows:
    """Median and greatest relative error of each estimator over the policies."""
    lines = []
    for row in rows:
        errors: dict[tuple[str, str], list[float]] = {}
        for value in row["estimates"]:
            for estimator, estimate in value["estimators"].items():
                if estimate["relative_error"] is not None:
                    key = value["horizon"], estimator
                    errors.setdefault(key, []).append(estimate["relative_error"])
        lines += [
            [f"{row['machine']}, {row['slices']} slices", *key]
            + [f"{value:.0%}" for value in (np.median(values), max(values))]
            for key, values in errors.items()
        ]
    return TableOfRows(["task", "horizon", "estimator", ">median error", ">worst"], lines)


TABLES = {"default": _errors}
