"""Estimators of a policy's value from logged data: importance sampling, a direct model, FQE."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from pmoss_benchmarks.spatial.off_policy.logged import Logged, TargetPolicy
from pmoss_env.types import Float32Array, Float64Array


@dataclass(frozen=True)
class NetworkOptions:
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


def _weights(data: Logged, policy: TargetPolicy) -> tuple[Float64Array, Float64Array]:
    """Probabilities (N, T, W) of the policy, and its ratio to the behaviour's (N, T)."""
    shares = policy(data.features)
    chosen = np.take_along_axis(shares, data.chosen[..., None], axis=2)[..., 0]
    return shares, chosen / data.propensity


def one_step(data: Logged, policy: TargetPolicy, model: DirectModel) -> dict[str, float]:
    """Estimates of the mean improvement of one step of the policy on the logged states, Mq/s."""
    shares, ratio = _weights(data, policy)
    guess = model.predict(data.features)
    direct = (shares * guess).sum(axis=2)
    chosen = np.take_along_axis(guess, data.chosen[..., None], axis=2)[..., 0]
    return {
        "importance sampling": float((ratio * data.rewards).mean()),
        "self-normalised": float((ratio * data.rewards).sum() / ratio.sum()),
        "direct model": float(direct.mean()),
        "doubly robust": float((direct + ratio * (data.rewards - chosen)).mean()),
    }


def whole_episode(
    data: Logged, policy: TargetPolicy, options: NetworkOptions, seed: int
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
        "fitted Q evaluation": fitted_q(data, policy, options, seed),
    }


class DirectModel:
    """A network that predicts each step's improvement from the features of state and worker."""

    def __init__(self, data: Logged, options: NetworkOptions, seed: int) -> None:
        """Fits it to the logged choices."""
        generator = torch.Generator().manual_seed(seed)
        self._scale = float(np.abs(data.rewards).mean()) or 1.0
        self._network = _network(data.features.shape[-1], options.width, seed)
        inputs = torch.from_numpy(_chosen_features(data))
        targets = torch.from_numpy((data.rewards.ravel() / self._scale).astype(np.float32))
        _fit(self._network, inputs, targets, options, options.updates, generator)

    def predict(self, features: Float32Array) -> Float64Array:
        """(..., W) predicted improvements, Mq/s, from features (..., W, F)."""
        return _predict(self._network, features) * self._scale


def fitted_q(data: Logged, policy: TargetPolicy, options: NetworkOptions, seed: int) -> float:
    """FQE: the return of following the policy, fitted backwards from the logged transitions."""
    generator = torch.Generator().manual_seed(seed)
    shares, _ = _weights(data, policy)
    scale = float(np.abs(data.rewards).sum(axis=1).mean()) or 1.0
    network = _network(data.features.shape[-1], options.width, seed)
    inputs = torch.from_numpy(_chosen_features(data))
    gains = data.rewards / scale
    for _ in range(options.rounds):
        values = (shares * _predict(network, data.features)).sum(axis=2)
        following = np.concatenate([values[:, 1:], np.zeros_like(values[:, :1])], axis=1)
        targets = torch.from_numpy((gains + following).ravel().astype(np.float32))
        _fit(network, inputs, targets, options, options.updates_per_round, generator)
    first = (shares[:, 0] * _predict(network, data.features[:, 0])).sum(axis=1)
    return float(first.mean() * scale)


def _network(features: int, width: int, seed: int) -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Linear(features, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, 1),
        )


def _chosen_features(data: Logged) -> Float32Array:
    index = data.chosen[..., None, None]
    return np.take_along_axis(data.features, index, axis=2).reshape(-1, data.features.shape[-1])


def _fit(
    network: nn.Sequential,
    inputs: Tensor,
    targets: Tensor,
    options: NetworkOptions,
    updates: int,
    generator: torch.Generator,
) -> None:
    optimizer = torch.optim.Adam(network.parameters(), lr=options.learning_rate)
    for _ in range(updates):
        rows = torch.randint(len(inputs), (options.batch,), generator=generator)
        loss = (network(inputs[rows])[:, 0] - targets[rows]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def _predict(network: nn.Sequential, features: Float32Array) -> Float64Array:
    with torch.no_grad():
        found: Float32Array = network(torch.from_numpy(features))[..., 0].numpy()
    return found.astype(np.float64)
