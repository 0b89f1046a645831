"""The base of agents for access paths: data, decisions in batches, and features."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from pmoss_agents.agent import Array, Observation, OfflineAgent
from pmoss_agents.checks import allowed_actions, no_dataset
from pmoss_agents.trainer import Course
from pmoss_datasets import Dataset
from pmoss_datasets.access_path.scans import AccessPathDataset
from pmoss_env.envs.access_path import FEATURES, PATHS
from pmoss_env.errors import CheckpointError, DatasetError

Floats = npt.NDArray[np.float64]
_SIZE, _LATENCY, _RESULTS, _LINK, _ENGINE = range(len(FEATURES))


def _paper(features: Floats) -> Floats:
    return np.concatenate([np.ones((len(features), 1)), features], axis=1)


def _products(features: Floats) -> Floats:
    """The paper's five, and those whose influence grows with the bytes times the size."""
    size = features[:, [_SIZE]]
    times_size = size * features[:, [_LATENCY, _LINK, _ENGINE]]
    traffic = features[:, [_LATENCY]] * times_size[:, 1:]
    return np.concatenate(
        [_paper(features), times_size, traffic, times_size[:, 1:] ** 2 / (size + 1.0)], axis=1
    )


#: How a model sees the five features; the first column is 1. "paper" leaves them as they are.
EXPANSIONS: Mapping[str, Callable[[Floats], Floats]] = {"paper": _paper, "products": _products}


def expected_ms(features: Floats) -> Floats:
    """(n,) a rough run time in ms by the size alone: errors are weighed against it."""
    return np.asarray(0.05 + features[:, _SIZE] / 5.0)


def decisions(data: AccessPathDataset | Dataset) -> tuple[Floats, Floats]:
    """Features of scans, and the run time of each on every path.

    A calibration has tried every path of every scan. An episode has tried the one that was chosen.

    Returns:
        (n, 5) features, and (n, P) microseconds that are NaN on paths that were not tried.

    Raises:
        DatasetError: they are no dataset, or episodes of another domain.
    """
    if isinstance(data, AccessPathDataset):
        return data.pairs()
    if not isinstance(data, Dataset):
        raise no_dataset(data)
    if data.domain.name != AccessPathAgent.domain:
        raise DatasetError(
            f"{data.path}: holds episodes of the domain {data.domain.name!r}: agents of "
            "access-path selection cannot learn from them"
        )
    features, times = [], []
    for episode in data:
        features.append(episode.observations["features"][: episode.steps])
        # The info after a step is of the scan that the step ran.
        took = np.full((episode.steps, data.metadata.sizes["A"]), np.nan)
        took[np.arange(episode.steps), episode.actions] = episode.infos["run_time_us"][1:]
        times.append(took)
    return np.concatenate(features).astype(np.float64), np.concatenate(times)


def tried(times_us: Floats, path: int) -> npt.NDArray[np.bool_]:
    """(n,) bool: the scans that were run on a path; DatasetError if none was."""
    ran = ~np.isnan(times_us[:, path])
    if not ran.any():
        raise DatasetError(
            f"no scan took the path {PATHS[path]!r}: data that never tried a path do not show what "
            "it costs; collect with --tier mixed"
        )
    return ran


class AccessPathAgent(OfflineAgent[AccessPathDataset | Dataset]):
    """Chooses a path for each scan; many at once, or one at a time.

    ``fit`` takes a calibration, and its metric is how far the chosen paths are from the best. Or it
    takes recorded episodes, which hold the chosen paths only.
    While it acts, ``observe`` may take what each choice paid, minus milliseconds (the reward
    "time"): agents that refine themselves learn from it.

    Attributes:
        adds_up: whether learn() adds to what was learned before; else it begins anew. A second
            fit() on the same data then changes nothing. A class attribute.
    """

    domain = "access-path"
    adds_up: ClassVar[bool] = False

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self._last: tuple[Floats, int] | None = None

    @contextmanager
    def _course(self, dataset: AccessPathDataset | Dataset) -> Iterator[Course]:
        features, times = decisions(dataset)
        is_known_data = self.dataset == {"id": dataset.id, "checksum": dataset.checksum}

        def change() -> dict[str, float]:
            if not (is_known_data and self.adds_up):
                self.learn(features, times)
            if np.isnan(times).any():
                return {"scans": float(len(times))}
            chosen = times[np.arange(len(times)), self.choose(features)]
            return {"above_best": float(chosen.sum() / times.min(axis=1).sum() - 1.0)}

        # All scans at once: an agent that is fitted again has one more update to make.
        yield Course(lambda update: change, total=self.updates + 1)

    def learn(self, features: Floats, times_us: Floats) -> None:
        """Learns from (n, 5) features and the (n, P) microseconds that each path took.

        Raises:
            DatasetError: NaN for paths that this agent must know more of.
        """
        self.task = {"features": list(FEATURES), "paths": list(PATHS[: times_us.shape[1]])}
        self._learn(features, times_us)

    def _learn(self, features: Floats, times_us: Floats) -> None:
        """The agent's own part of learn(); none by default."""

    @abstractmethod
    def choose(self, features: Floats) -> npt.NDArray[np.intp]:
        """(n,) the path of each of (n, 5) scans, of those that the agent learned."""

    def reset(self) -> None:
        """Begins an episode; what was learned stays."""
        self._last = None

    def act(self, observation: Observation, action_mask: Array | None = None) -> int:
        """The path of the next scan of ``pmoss/AccessPath-v0``."""
        features = np.asarray(observation["features"], dtype=np.float64)[None]
        mask = observation["action_mask"] if action_mask is None else action_mask
        path = int(self.choose(features)[0])
        allowed = allowed_actions(self.name, mask, max(np.size(mask), self.paths))
        if not allowed[path]:
            path = int(allowed.argmax())
        self._last = (features, path)
        return path

    def check_env(self, env: Any) -> None:
        """Refuses an environment of other tasks, with fewer paths, or with rewards it misreads."""
        env = env.unwrapped
        if "features" not in getattr(env.observation_space, "spaces", {}):
            raise CheckpointError(f"{self.name} chooses access paths: not in this environment")
        if self.paths > env.action_space.n:
            raise CheckpointError(
                f"{self.name} chooses between {self.paths} paths, and this environment offers "
                f"{env.action_space.n}: make it with relaxed=True"
            )
        if self.learns_from_times and getattr(env, "reward", "time") != "time":
            raise CheckpointError(
                f"{self.name} learns from run times while it acts: make the environment with "
                'reward="time"'
            )

    @property
    def paths(self) -> int:
        """How many paths it chooses between; 0 if it does not know yet."""
        return len(self.task.get("paths", ()))

    @property
    def learns_from_times(self) -> bool:
        """Whether observe() takes rewards for minus the milliseconds of the last scan."""
        return False
