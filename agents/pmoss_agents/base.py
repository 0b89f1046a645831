"""The interface of every agent, and how agents are kept in files.

A checkpoint is one ``.npz`` file: arrays by name, and a JSON header among them. Nothing in it is
ever unpickled, the zip container carries a CRC of every array, and it is written whole or not at
all.
"""

from __future__ import annotations

import io
import json
import math
import tomllib
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from pmoss_datasets import Dataset
from pmoss_env import __version__
from pmoss_env.envs.spatial.observation import meta_names
from pmoss_env.errors import CheckpointError, DescriptionError
from pmoss_env.files import write_atomically
from pmoss_env.types import COUNTER_NAMES

Array = npt.NDArray[Any]
Observation = Mapping[str, Array]
#: progress(done, total, metrics) after every update of a fit.
Progress = Callable[[int, int, Mapping[str, float]], None]

FORMAT = "pmoss-agent"
#: Raised by one whenever an older reader could misread a newer checkpoint.
CHECKPOINT_VERSION = 2
CONFIGS = Path(__file__).parent / "configs"
_HEADER = "header"
#: How the names of exported policies end, which are no checkpoints.
EXPORTED = ".pt"
#: More threads than any machine has use for; far more of them end the process.
MOST_THREADS = 1024
#: What to do where an environment differs from the task.
_WAYS_OUT = {
    "grid": "; padding (--pad) takes it to a smaller grid",
    "slices": "; see -e slices",
    "order": "; see -e order",
    "observation": "; see -e observation",
    "readable": "; see -e counters",
}


class Agent(ABC):
    """A policy that is fitted to a dataset and then asked for one action at a time.

    Attributes:
        name: registry name, a class attribute.
        learns: "offline", from a dataset; "online" agents are OnlineAgents.
        config: the agent's frozen config dataclass.
        task: what it was fitted for: grid, slices, counters; empty before the first fit().
        dataset: id and checksum of the dataset it last learned from; empty before the first fit().
    """

    name: ClassVar[str]
    learns: ClassVar[Literal["offline", "online"]] = "offline"
    Config: ClassVar[type[Any]]
    #: What its task always holds, see task_of().
    TASK: ClassVar[tuple[str, ...]] = (
        "grid",
        "slices",
        "counters",
        "order",
        "observation",
        "meta_names",
    )

    def __init__(self, **config: Any) -> None:
        """Makes an agent that is not fitted yet.

        Args:
            **config: fields of the agent's Config.

        Raises:
            DescriptionError: a field that does not exist, or an impossible value.
        """
        known = {field.name for field in fields(self.Config)}
        for key in config:
            if key not in known:
                raise DescriptionError(
                    f"{self.name}: config {key!r}: unknown; known are {', '.join(sorted(known))}"
                )
        self.config = self.Config(**config)
        self.task: dict[str, Any] = {}
        self.dataset: dict[str, str] = {}

    @abstractmethod
    def fit(
        self,
        dataset: Dataset,
        *,
        progress: Progress | None = None,
        checkpoint: str | Path | None = None,
        allow_other_dataset: bool = False,
    ) -> dict[str, float]:
        """Learns from a dataset; continues where a loaded checkpoint stopped.

        Args:
            dataset: what to learn from.
            progress: called after every update.
            checkpoint: where to save now and then, and when interrupted.
            allow_other_dataset: go on with another dataset of the same task.

        Returns:
            The last update's metrics.

        Raises:
            CheckpointError: the agent was fitted for another task, or to another dataset.
        """

    @abstractmethod
    def reset(self) -> None:
        """Begins an episode."""

    @abstractmethod
    def act(self, observation: Observation, action_mask: Array | None = None) -> int:
        """Chooses the next tile.

        Args:
            observation: of ``pmoss/SpatialScheduling-v0``.
            action_mask: (r * c,) 1 = allowed; the observation's position mask if None.

        Returns:
            An allowed tile.

        Raises:
            CheckpointError: the observation is of another task than the agent was fitted for.
        """

    def check_extras(self) -> None:  # noqa: B027 (most agents need no more than to be made)
        """Raises MissingExtraError if fit() needs a package that is not installed."""

    def observe(self, reward: float) -> None:  # noqa: B027 (most agents have no use for it)
        """Tells the reward of the last action; only return-conditioned agents use it."""

    @abstractmethod
    def _state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Arrays and plain JSON values that restore the agent."""

    @abstractmethod
    def _restore(self, arrays: Mapping[str, Array], values: Mapping[str, Any]) -> None:
        """Takes what _state() gave; raises CheckpointError if it does not fit the config."""

    def save(self, path: str | Path) -> None:
        """Writes a checkpoint, whole or not at all; raises CheckpointError before a fit()."""
        if not self.task:
            raise CheckpointError(f"{self.name}: nothing to save: call fit() first")
        if Path(path).suffix == EXPORTED:
            raise CheckpointError(
                f"{path}: is the name of an export, which cannot learn: a checkpoint ends in .npz"
            )
        arrays, values = self._state()
        if name := _not_finite(arrays):
            raise CheckpointError(
                f"{self.name}: {name} is not finite: training diverged, nothing is saved; try a "
                "lower learning_rate"
            )
        header = {
            "format": FORMAT,
            "version": CHECKPOINT_VERSION,
            "code_version": __version__,
            "agent": self.name,
            "config": asdict(self.config),
            "task": self.task,
            "dataset": self.dataset,
            "values": values,
            "arrays": {name: [array.dtype.str, *array.shape] for name, array in arrays.items()},
        }
        text = json.dumps(header, sort_keys=True).encode()
        buffer = io.BytesIO()
        everything: dict[str, Any] = {_HEADER: np.frombuffer(text, dtype=np.uint8), **arrays}
        np.savez(buffer, **everything)
        write_atomically(path, buffer.getvalue())

    @classmethod
    def from_checkpoint(cls, path: Path, header: Mapping[str, Any], arrays: Any) -> Self:
        """Rebuilds an agent from a checked header and its arrays."""
        try:
            if name := _not_finite(arrays):
                raise CheckpointError(f"{name} is not finite")
            agent = cls(**header["config"])
            agent.task = dict(header["task"])
            if missing := [key for key in cls.TASK if key not in agent.task]:
                raise CheckpointError(f"task: {missing[0]}: is missing")
            agent.dataset = dict(header.get("dataset", {}))  # absent from the first checkpoints
            # Counters are only added at the end of their table: act() leaves out the new ones.
            known = list(COUNTER_NAMES[: len(agent.task.get("counters", ()))])
            agent.check_task({"counters": known}, "this version of pmoss_env")
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

    def check_task(self, other: Mapping[str, Any], what: str = "the environment") -> None:
        """Compares facts with the task that the agent was fitted for.

        Args:
            other: any part of a task, by the names that task_of() gives. Keys that the agent's
                task lacks and values of None are not compared.
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

    def check_env(self, env: Any) -> None:
        """Refuses an environment of another task than the agent was fitted for.

        Args:
            env: a spatial scheduling environment, wrapped or bare. What it does not tell is not
                compared.

        Raises:
            CheckpointError: it has another grid, number of slices, placement order, observation or
                set of counters.
        """
        env = getattr(env, "unwrapped", env)
        machine = getattr(env, "machine", None)
        self.check_task(
            {
                "grid": None if machine is None else [machine.rows, machine.cols],
                "slices": getattr(env, "slices", None),
                "order": getattr(env, "order_kind", None),
                "observation": getattr(env, "observation_mode", None),
                "readable": getattr(env, "counters_kind", None),
            }
        )

    def encoders(self) -> list[Any]:
        """The state encoders of the networks that it acts by: they know the machine's domains."""
        return []

    def check_dataset(self, dataset: Dataset, allow_other: bool = False) -> dict[str, str]:
        """Refuses to go on learning from another dataset than the one begun with.

        Args:
            dataset: what fit() was given.
            allow_other: take it all the same.

        Returns:
            What fit() sets ``self.dataset`` to when it begins.

        Raises:
            CheckpointError: it has another id or other contents.
        """
        given = {"id": dataset.metadata.id, "checksum": dataset.checksum}
        if self.dataset and self.dataset != given and not allow_other:
            raise CheckpointError(
                f"{self.name} was fitted to the dataset {self.dataset['id']} with checksum "
                f"{self.dataset['checksum'][:12]}, but {dataset.path} is {given['id']} with "
                f"{given['checksum'][:12]}: pass allow_other_dataset=True to go on with it"
            )
        return given


class OnlineAgent(Agent):
    """An agent that learns from episodes of its own making."""

    learns: ClassVar[Literal["offline", "online"]] = "online"

    @abstractmethod
    def fit(  # type: ignore[override]  # it needs no dataset
        self,
        env: Mapping[str, Any],
        *,
        progress: Progress | None = None,
        checkpoint: str | Path | None = None,
    ) -> dict[str, float]:
        """Learns by playing; continues where a loaded checkpoint stopped.

        Args:
            env: keyword arguments of ``pmoss/SpatialScheduling-v0``, on the analytic backend.
            progress: called after every update.
            checkpoint: where to save now and then, and when interrupted.

        Returns:
            The last update's metrics, with ``steps`` of the environment so far.

        Raises:
            CheckpointError: the agent was fitted for another task.
            UnsupportedError: a backend that is too slow to be played millions of times.
        """


def task_of(dataset: Dataset) -> dict[str, Any]:
    """What an agent fitted to ``dataset`` can be used for, as plain JSON."""
    return {
        "grid": [dataset.machine.rows, dataset.machine.cols],
        "slices": dataset.steps,
        "counters": list(COUNTER_NAMES),
        "order": str(dataset.metadata.env_kwargs.get("order", "index")),
        "observation": str(dataset.metadata.env_kwargs.get("observation", "full")),
        "readable": str(dataset.metadata.env_kwargs.get("counters", "all")),
        "meta_names": list(meta_names(dataset.machine)),
    }


def read_checkpoint(path: str | Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """The header and the arrays of a checkpoint.

    Raises:
        CheckpointError: the file is missing, damaged, foreign or of a newer version.
    """
    path = Path(path)
    if path.is_file() and not zipfile.is_zipfile(path):
        raise CheckpointError(f"{path}: is damaged or no checkpoint: no .npz file")
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except FileNotFoundError as error:
        raise CheckpointError(f"{path}: does not exist") from error
    # A damaged zip container answers with many kinds of error, depending on the bytes.
    except Exception as error:
        raise CheckpointError(
            f"{path}: is damaged or no checkpoint: {type(error).__name__}: {error}"
        ) from error
    try:
        header = json.loads(arrays.pop(_HEADER).tobytes())
    except (KeyError, ValueError) as error:
        raise CheckpointError(f"{path}: has no header: it is no checkpoint of ours") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise CheckpointError(f"{path}: is not a {FORMAT} file")
    if header.get("version") != CHECKPOINT_VERSION:
        raise CheckpointError(
            f"{path}: version = {header.get('version')!r}: this version reads {CHECKPOINT_VERSION}"
        )
    if {name: [a.dtype.str, *a.shape] for name, a in arrays.items()} != header.get("arrays"):
        raise CheckpointError(f"{path}: its arrays are not those that the header lists")
    return header, arrays


def read_config(name: str | Path, task: str = "") -> dict[str, Any]:
    """A config: one that is committed, by name, or a ``.toml`` file by path.

    The file's fields hold for every task. Tables named ``[tasks."<pattern>"]`` override them for
    the tasks whose name the pattern (as of a shell) fits, the last one that fits winning.

    Args:
        name: of the config, or its file.
        task: as in dataset ids: ``skylake-x-8n-btree-ycsb-a`` of
            ``pmoss/skylake-x-8n-btree-ycsb-a/mixed-v0``.

    Raises:
        DescriptionError: it does not exist or is not valid TOML.
    """
    path = Path(name)
    if path.suffix != ".toml":
        path = CONFIGS / f"{name}.toml"
    try:
        values = tomllib.loads(path.read_text())
    except OSError as error:
        known = ", ".join(sorted(p.stem for p in CONFIGS.glob("*.toml")))
        raise DescriptionError(
            f"config {str(name)!r}: cannot be read; known are {known}"
        ) from error
    except ValueError as error:
        raise DescriptionError(f"{path}: is not valid TOML: {error}") from error
    if not isinstance(values.get("agent", ""), str):
        raise DescriptionError(f"{path}: agent = {values['agent']!r}: must be a text")
    tasks = values.pop("tasks", {})
    if not isinstance(tasks, dict) or not all(isinstance(t, dict) for t in tasks.values()):
        raise DescriptionError(f'{path}: tasks: must be tables, as [tasks."toy-*"]')
    for pattern, changes in tasks.items():
        if fnmatchcase(task, pattern):
            values |= changes
    return values


def task_name(dataset_id: str) -> str:
    """``skylake-x-8n-btree-ycsb-a`` of ``pmoss/skylake-x-8n-btree-ycsb-a/mixed-v0``."""
    return dataset_id.removeprefix("pmoss/").split("/")[0]


def checker(agent: str, config: Any) -> Callable[[str, bool, str], None]:
    """Checks the types of a config's fields, for its ``__post_init__``.

    Types come first: comparing a text with a number would be a TypeError that names no field.

    Args:
        agent: whose config, for the messages.
        config: a dataclass with postponed annotations.

    Returns:
        check(name, good, rule), which raises a DescriptionError that names field, value and rule
        unless ``good``.

    Raises:
        DescriptionError: an int, float or bool field that holds something else.
    """

    def check(name: str, good: bool, rule: str) -> None:
        if not good:
            raise DescriptionError(f"{agent}: {name} = {getattr(config, name)!r}: must {rule}")

    for field in fields(config):
        value = getattr(config, field.name)
        if field.type == "int":
            check(field.name, type(value) is int, "be a whole number")
        elif field.type == "float":
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            check(field.name, number and math.isfinite(value), "be a finite number")
        elif field.type == "bool":
            check(field.name, isinstance(value, bool), "be true or false")
        if field.name == "seed":
            check("seed", 0 <= value < 2**32, "lie in [0, 2^32)")
        elif field.name == "threads":
            check("threads", 1 <= value <= MOST_THREADS, f"lie between 1 and {MOST_THREADS}")
    return check


def _not_finite(arrays: Mapping[str, Array]) -> str | None:
    """The name of the first array with a number that is not finite."""
    floats = (name for name, array in arrays.items() if array.dtype.kind == "f")
    return next((name for name in floats if not np.isfinite(arrays[name]).all()), None)


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
