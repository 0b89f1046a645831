"""The interface of every agent: it acts, and it is kept in a file.

What it learns from, if anything, decides its base: ``OfflineAgent`` learns from a dataset,
``OnlineAgent`` by playing. Both are generic, because each domain has data and environments of its
own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeVar

import numpy as np
import numpy.typing as npt

from pmoss_agents import checkpoints
from pmoss_agents.checks import all_arguments, check_same, no_dataset
from pmoss_agents.conditions import FIRST, changed_code, conditions_of, joined
from pmoss_agents.configs import check_types
from pmoss_agents.trainer import Course, Progress, train
from pmoss_env.errors import (
    CheckpointError,
    DatasetError,
    DescriptionError,
    PmossError,
    UnsupportedError,
    unknown_key,
)
from pmoss_env.types import COUNTER_NAMES

if TYPE_CHECKING:
    from pmoss_datasets.policies import Policy

Array = npt.NDArray[Any]
Observation = Mapping[str, Array]
Learns = Literal["offline", "online", "nothing"]

#: What to do where an environment differs from the task.
_WAYS_OUT = {
    "grid": "; padding (--pad) takes it to a smaller grid",
    "meta": "; padding (--pad) leaves out what a machine lacks",
    "slices": "; see -e slices",
    "order": "; see -e order",
    "observation": "; see -e observation",
    "readable": "; see -e counters",
}


class Agent(ABC):
    """A policy that is asked for one action at a time.

    Attributes:
        name: registry name, a class attribute.
        domain: the environment that it is for, such as "spatial" or "continual".
        learns: "offline" from a dataset, "online" by playing, or "nothing".
        learns_while_acting: whether it may act before it has learned anything.
        config: the agent's frozen config dataclass.
        task: what it was fitted for, as plain JSON values; empty before the first fit().
        dataset: id and checksum of the dataset it last learned from; empty where there is none.
        played_in: arguments of the environment that it learns in, defaults included; empty where it
            learns from data, or was given an environment itself.
        training: what decided the bits of its training, see conditions_of(), and ``losses`` of the
            first updates; empty before it learns.
    """

    name: ClassVar[str]
    domain: ClassVar[str] = ""
    learns: ClassVar[Learns] = "nothing"
    learns_while_acting: ClassVar[bool] = False
    Config: ClassVar[type[Any]]
    config: Any
    #: Keys that the task of a fitted agent always holds.
    TASK: ClassVar[tuple[str, ...]] = ()

    def __init__(self, **config: Any) -> None:
        """Makes an agent that is not fitted yet.

        Raises:
            DescriptionError: a field that does not exist, or an impossible value.
        """
        names = {field.name for field in fields(self.Config)}
        for key in config:
            if key not in names:
                raise DescriptionError(unknown_key(f"{self.name}: config {key!r}", key, names))
        check_types(self.name, self.Config, config)
        try:
            self.config = self.Config(**config)
        except (TypeError, ValueError) as error:  # a class of others may check in its own way
            if isinstance(error, PmossError):
                raise
            raise DescriptionError(f"{self.name}: config: {error}") from error
        self.task: dict[str, Any] = {}
        self.dataset: dict[str, str] = {}
        self.played_in: dict[str, Any] = {}
        self.training: dict[str, Any] = {}

    # ---- acting

    @abstractmethod
    def act(self, observation: Observation, action_mask: Array | None = None) -> int:
        """Chooses the next action.

        Args:
            action_mask: (actions,) 1 = allowed; the mask in the observation if None.

        Returns:
            An allowed action.

        Raises:
            CheckpointError: the observation is of another task than the agent was fitted for.
        """

    def reset(self) -> None:  # noqa: B027 (many agents remember nothing)
        """Begins an episode."""

    def observe(self, reward: float) -> None:  # noqa: B027 (most agents have no use for it)
        """Takes the reward of the last action."""

    def check_env(self, env: Any) -> None:  # noqa: B027 (an agent may play anywhere)
        """Raises CheckpointError for an environment of another task than the agent's."""

    def padded(self) -> Policy:
        """The agent on smaller machines than that of its data.

        Raises:
            UnsupportedError: it does not know the size of what it learned on.
        """
        raise UnsupportedError(
            f"{self.name}: --pad needs an agent that tells the grid it learned on"
        )

    def check_extras(self) -> None:  # noqa: B027 (most agents need no more than to be made)
        """Raises MissingExtraError if fit() needs a package that is not installed."""

    def check_task(self, other: Mapping[str, Any], what: str = "the environment") -> None:
        """Compares facts with the task that the agent was fitted for.

        Args:
            other: any part of a task. Keys that the agent's task lacks and values of None are not
                compared.
            what: whose facts these are, for the message.

        Raises:
            CheckpointError: a fact differs; names the first one and both values.
        """
        for key, value in other.items():
            if value is None or key not in self.task:
                continue
            value = list(value) if isinstance(value, tuple) else value
            if self.task[key] != value:
                raise CheckpointError(
                    f"{self.name} was fitted for {key} = {_short(self.task[key])}, but {what} has "
                    f"{key} = {_short(value)}{_WAYS_OUT.get(key, '')}"
                )

    # ---- keeping

    def _state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Arrays and plain JSON values that restore the agent; none by default."""
        return {}, {}

    def _restore(self, arrays: Mapping[str, Array], values: Mapping[str, Any]) -> None:
        """Takes what _state() gave; raises CheckpointError if it does not fit the config."""
        if arrays:
            raise CheckpointError(f"{self.name}: has no use for {', '.join(arrays)}")

    def save(self, path: str | Path) -> None:
        """Writes a checkpoint, whole or not at all.

        Args:
            path: of the file, by custom ``.safetensors``.

        Raises:
            CheckpointError: nothing was learned yet, training diverged, or the path's ending is
                that of an export.
            MissingExtraError: safetensors is not installed.
        """
        if not self.task:
            raise CheckpointError(f"{self.name}: nothing to save: call fit() first")
        arrays, values = self._state()
        if name := _not_finite(arrays):
            raise CheckpointError(
                f"{self.name}: {name} is not finite: training diverged, nothing is saved; try a "
                "lower learning_rate"
            )
        header = {
            "agent": self.name,
            "config": asdict(self.config),
            "task": self.task,
            "dataset": self.dataset,
            "training": self.training,
            "values": values,
            **({"played_in": self.played_in} if self.played_in else {}),
        }
        checkpoints.write(path, header, arrays)

    @classmethod
    def from_checkpoint(cls, path: Path, header: Mapping[str, Any], arrays: Any) -> Self:
        """Rebuilds an agent from what checkpoints.read() gave.

        Raises:
            CheckpointError: it does not fit this class.
        """
        try:
            if name := _not_finite(arrays):
                raise CheckpointError(f"{name} is not finite")
            agent = cls(**header["config"])
            agent.task = dict(header["task"])
            if missing := [key for key in cls.TASK if key not in agent.task]:
                raise CheckpointError(f"task: {missing[0]}: is missing")
            agent.dataset = dict(header["dataset"])
            # Absent from the first checkpoints.
            agent.played_in = dict(header.get("played_in", {}))
            agent.training = dict(header.get("training", {}))
            # Counters are only added at the end of their table: act() leaves out the new ones.
            counters = list(COUNTER_NAMES[: len(agent.task.get("counters", ()))])
            agent.check_task({"counters": counters}, "this version of pmoss_env")
            agent._restore(arrays, header["values"])
        except CheckpointError as error:
            raise CheckpointError(f"{path}: {error}") from error
        # What an altered header makes of shapes and numbers is any kind of error.
        except (
            *(ArithmeticError, AttributeError, LookupError),
            *(RuntimeError, TypeError, ValueError),
        ) as error:
            raise CheckpointError(f"{path}: does not fit {cls.name}: {error}") from error
        return agent


#: What is learned from; it has a ``path``, an ``id`` and a ``checksum`` of all that it holds.
DatasetT = TypeVar("DatasetT")
EnvT = TypeVar("EnvT")


class OfflineAgent(Agent, Generic[DatasetT]):
    """An agent that learns from a dataset of its domain.

    Attributes:
        updates: how many it has made.
        several: whether fit() also takes several datasets, of any machines; a class attribute.
    """

    learns: ClassVar[Learns] = "offline"
    several: ClassVar[bool] = False
    updates: int = 0

    def fit(
        self,
        dataset: DatasetT,
        *,
        progress: Progress | None = None,
        checkpoint: str | Path | None = None,
        allow_other_dataset: bool = False,
        allow_other_code: bool = False,
    ) -> dict[str, float]:
        """Learns from a dataset; continues where a loaded checkpoint stopped.

        Args:
            dataset: what to learn from.
            progress: called after every update.
            checkpoint: where to save now and then, at the end, and when interrupted.
            allow_other_dataset: go on with another dataset of the same task.
            allow_other_code: go on with what other code has trained.

        Returns:
            The last update's metrics.

        Raises:
            CheckpointError: the agent was fitted for another task, to another dataset or by other
                code; or has no update left for another dataset; or training diverged, and the last
                checkpoint stays.
            DatasetError: there is nothing to learn from these data, or they are a path.
            MissingExtraError: learning needs a package that is not installed.
        """
        if isinstance(dataset, str | Path):
            raise DatasetError(f"{dataset}: is a path: open_dataset(path) gives a Dataset")
        if not (hasattr(dataset, "id") and hasattr(dataset, "checksum")):
            raise no_dataset(dataset)
        self.check_extras()
        origin = self._origin(dataset, allow_other_dataset)
        _check_code(self, allow_other_code)
        with self._course(dataset) as course:
            if self.dataset and self.dataset != origin and self.updates >= course.total:
                raise CheckpointError(
                    f"{self.name} has made all of its {self.updates} updates: there is none left "
                    f"for {origin['id']}; give more updates, or fit renewed()"
                )
            self.dataset = origin
            return train(self, course, _recorded(self, progress), checkpoint)

    def renewed(self, **config: Any) -> Self:
        """An agent with the weights of this one that has made no update yet: for fine-tuning.

        Args:
            **config: fields of the Config that differ, such as ``updates``.

        Returns:
            A new agent, which may learn from any dataset of the same task. This one stays.

        Raises:
            UnsupportedError: an agent of this name cannot be fine-tuned.
            CheckpointError: nothing was learned yet, or the weights do not fit the config.
            DescriptionError: a field that does not exist, or an impossible value.
        """
        raise UnsupportedError(
            f"{self.name}: cannot be fine-tuned; surrogate, generalist, decision-transformer, qt "
            "and forecaster can"
        )

    def task_of(self, dataset: DatasetT) -> dict[str, Any]:
        """The task of an agent that is fitted to a dataset, as plain JSON values."""
        return {}

    def course(self, dataset: DatasetT) -> AbstractContextManager[Course]:
        """The updates to make, for an agent that holds this one and trains it; see _course()."""
        return self._course(dataset)

    @abstractmethod
    def _course(self, dataset: DatasetT) -> AbstractContextManager[Course]:
        """The updates to make, in a context that holds whatever they need.

        It sets ``task``, and raises DatasetError for data that teach nothing.
        """

    def _origin(self, dataset: Any, allow_other: bool) -> dict[str, str]:
        """Id and checksum of a dataset; CheckpointError for another task, or another dataset."""
        self.check_task(self.task_of(dataset), f"the dataset {dataset.id}")
        given = {"id": dataset.id, "checksum": dataset.checksum}
        if self.dataset and self.dataset != given and not allow_other:
            raise CheckpointError(
                f"{self.name} was fitted to the dataset {self.dataset['id']} with checksum "
                f"{self.dataset['checksum'][:12]}, but {given['id']} has "
                f"{given['checksum'][:12]}: pass allow_other_dataset=True to go on with it"
            )
        return given


class OnlineAgent(Agent, Generic[EnvT]):
    """An agent that learns by playing.

    Attributes:
        updates: how many it has made.
        takes_env: whether fit() also takes an environment itself; a class attribute.
    """

    learns: ClassVar[Learns] = "online"
    takes_env: ClassVar[bool] = True
    updates: int = 0

    def fit(
        self,
        env: EnvT,
        *,
        progress: Progress | None = None,
        checkpoint: str | Path | None = None,
        allow_other_code: bool = False,
    ) -> dict[str, float]:
        """Learns by playing; continues where a loaded checkpoint stopped.

        Args:
            env: what to play in: keyword arguments of the domain's environment, plain JSON. An
                agent may also take an environment.
            progress: called after every update.
            checkpoint: where to save now and then, at the end, and when interrupted.
            allow_other_code: go on with what other code has trained.

        Returns:
            The last update's metrics.

        Raises:
            CheckpointError: the agent was fitted for another task, in another environment, or by
                other code.
            DescriptionError: the environment is no arguments of one.
            MissingExtraError: learning needs a package that is not installed.
            UnsupportedError: a backend that is too slow to be played millions of times.
        """
        self.check_extras()
        arguments = self._arguments(env)
        check_same(self.name, self.played_in, arguments)
        _check_code(self, allow_other_code)
        with self._course(env) as course:
            self.played_in = arguments or self.played_in
            return train(self, course, _recorded(self, progress), checkpoint)

    @abstractmethod
    def _course(self, env: EnvT) -> AbstractContextManager[Course]:
        """The updates to make, in a context that holds whatever they need; it sets ``task``."""

    def _arguments(self, env: Any) -> dict[str, Any]:
        """All arguments of the environment as plain JSON; none of an environment itself."""
        if self.takes_env and hasattr(env, "reset"):
            return {}
        return all_arguments(self.name, self.domain, env)


def _check_code(agent: OfflineAgent[Any] | OnlineAgent[Any], allow_other: bool) -> None:
    """Refuses to go on with what other code has trained."""
    if agent.updates and not allow_other and (folders := changed_code(agent.training)):
        raise CheckpointError(
            f"{agent.name}: other code made its {agent.updates} updates: "
            f"{_short(', '.join(folders))} changed since; train it anew, or go on all the same: "
            "--other-code, allow_other_code=True"
        )


def _recorded(agent: OfflineAgent[Any] | OnlineAgent[Any], progress: Progress | None) -> Progress:
    """Records the conditions of a training; its progress keeps the first losses, too."""
    now = conditions_of(type(agent).__module__)
    begins = not agent.updates and not agent.training
    before = now if begins else agent.training
    losses = list(agent.training.get("losses", ()))
    agent.training = {**joined(before, now), "losses": losses}

    def report(done: int, total: int, metrics: Mapping[str, float]) -> None:
        if done == len(losses) + 1 and done <= FIRST and "loss" in metrics:
            losses.append(float(metrics["loss"]))
        if progress is not None:
            progress(done, total, metrics)

    return report


def _not_finite(arrays: Mapping[str, Array]) -> str | None:
    """The name of the first array with a number that is not finite."""
    floats = (name for name, array in arrays.items() if array.dtype.kind == "f")
    return next((name for name in floats if not np.isfinite(arrays[name]).all()), None)


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
