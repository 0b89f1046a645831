"""Trainings made again: does the same config, seed and data give the same agent?

Under the conditions of the first training all bits must be equal. A host that has more
instructions than those trains with fewer. Elsewhere, or where the code has changed, the first
losses must agree within TOLERANCE: what comes after them parts as two seeds do.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from pmoss_agents import checkpoints
from pmoss_agents.conditions import INSTRUCTIONS, changed_code, same_bits
from pmoss_agents.registry import agent_class
from pmoss_datasets.catalog import load
from pmoss_env.errors import CheckpointError, DatasetError, DescriptionError, UnsupportedError
from pmoss_env.files import read_text

#: By how much of itself a loss of the first updates may differ on another host. Nine sets of
#: kernels differed by at most 0.000013 after 20 updates of bc, cql and iql.
TOLERANCE = 1e-3
#: No file of rows is longer.
_MAX_BYTES = 2**28
#: What torch and oneDNN read their instruction sets from.
_LIMITS = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA")


@dataclass(frozen=True)
class Training:
    """A training that was made.

    Attributes:
        words: what it is called.
        agent: registered name.
        config: all its fields that differ from the defaults, at least.
        dataset: ``id`` and ``checksum``.
        conditions: see conditions_of(), with ``losses``; empty where none were kept.
        metrics: of the last update; empty where none were kept.
        arrays: what was learned; empty where it was not kept.
    """

    words: str
    agent: str
    config: Mapping[str, Any]
    dataset: Mapping[str, str]
    conditions: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    arrays: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Retrained:
    """What came out of a training made again.

    Attributes:
        words: what the training is called.
        verdict: in words.
        mismatches: one line for each value that differs by more than it may.
    """

    words: str
    verdict: str
    mismatches: tuple[str, ...] = ()


def read_trainings(path: Path) -> list[Training]:
    """The trainings from data of a checkpoint, or of the rows of a study of played episodes.

    Raises:
        CheckpointError: a damaged checkpoint.
        DatasetError: the file holds no training from data.
        UnsupportedError: a training that nothing can make again.
    """
    if path.suffix == checkpoints.SUFFIX:
        return [_of_checkpoint(path)]
    rows = [json.loads(line) for line in read_text(path, _MAX_BYTES).splitlines()]
    trainings = [
        Training(
            f"{row['policy']}, {row['task']}, seed {row['seed']}",
            row["policy"],
            {**row["training"]["config"], "seed": row["seed"]},
            {key: row["training"]["source"][key] for key in ("id", "checksum")},
            row["training"].get("conditions", {}),
            row["training"]["metrics"],
        )
        for row in rows
        if "checksum" in row.get("training", {}).get("source", {})
    ]
    if not trainings:
        raise DatasetError(f"{path}: holds no training from data that could be made again")
    return trainings


def _of_checkpoint(path: Path) -> Training:
    header, arrays = checkpoints.read(path)
    dataset, conditions = header.get("dataset", {}), header.get("training", {})
    if not dataset:
        raise UnsupportedError(f"{path}: {header['agent']} learned by playing, not from data")
    if not conditions or conditions.get("mixed"):
        how = "is of an earlier version, which kept no conditions"
        how = "went on under other conditions than it began" if conditions else how
        raise UnsupportedError(f"{path}: its training {how}: it cannot be made again")
    return Training(path.name, header["agent"], header["config"], dataset, conditions, {}, arrays)


def choose(trainings: Sequence[Training], count: int | None) -> list[Training]:
    """So many trainings, evenly spread; all for None.

    Raises:
        DescriptionError: none is asked for.
    """
    if count is None or count >= len(trainings):
        return list(trainings)
    if count < 1:
        raise DescriptionError(f"{count} trainings: must be at least 1")
    return [trainings[i * len(trainings) // count] for i in range(count)]


def retrain(training: Training) -> Retrained:
    """Makes a training again in a process of its own, and compares.

    A training that names no instruction set is made with each that this host has, the best first.

    Raises:
        CheckpointError: the training failed.
        DatasetError: the data are others.
        UnknownNameError: the data are not here.
    """
    data = load(training.dataset["id"])
    if data.checksum != training.dataset["checksum"]:
        raise DatasetError(
            f"{data.path}: has checksum {data.checksum[:12]}, but {training.words} learned from "
            f"{training.dataset['checksum'][:12]}: build it anew"
        )
    recorded = training.conditions.get("instructions")
    able = list(_instructions())
    tried = [recorded] if recorded in able else able[:1] if recorded else able
    mismatches: tuple[str, ...] = ()
    for instructions in tried:
        header, arrays, metrics = _trained(training, data.path, instructions)
        mismatches = tuple(_different(training, arrays, metrics))
        if not mismatches:
            return Retrained(training.words, f"all bits equal with {instructions}")
    if not recorded:
        verdict = f"other bits with {', '.join(tried)}; it names no instruction set"
        return Retrained(training.words, verdict, mismatches)
    now = header["training"]
    changed = changed_code(training.conditions)
    if same_bits(training.conditions, now) and not changed:
        return Retrained(training.words, "other bits under the same conditions", mismatches)
    reasons = [*(["other code"] if changed else []), *_other_conditions(training.conditions, now)]
    far = tuple(_far_apart(training.conditions.get("losses", ()), now["losses"]))
    near = f"the first losses {'differ' if far else f'agree within {TOLERANCE:g}'}"
    return Retrained(training.words, f"{', '.join(reasons)}: {near}", far)


def _other_conditions(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for fact in ("torch", "instructions", "vendor"):
        if before.get(fact) != now.get(fact):
            yield f"{fact} {before.get(fact)}, here {now.get(fact)}"


def _different(
    training: Training, arrays: Mapping[str, Any], metrics: Mapping[str, float]
) -> Iterator[str]:
    """One line for each metric and each array that is not equal to the bit."""
    for name, value in training.metrics.items():
        if metrics.get(name) != value:
            yield f"{name}: recorded {value!r}, now {metrics.get(name)!r}"
    for name, array in training.arrays.items():
        if name not in arrays or not np.array_equal(array, arrays[name]):
            yield f"{name}: other values"


def _far_apart(before: Sequence[float], now: Sequence[float]) -> Iterator[str]:
    """One line for each of the first losses that differs by more than TOLERANCE."""
    if not before:
        yield "losses: none were kept to compare"
    for update, (old, new) in enumerate(zip(before, now, strict=False), 1):
        if not math.isclose(old, new, rel_tol=TOLERANCE):
            yield f"loss of update {update}: recorded {old:.6g}, now {new:.6g}"


@cache
def _instructions() -> tuple[str, ...]:
    """The instruction sets that this host has, the best first; some word where torch is absent."""
    code = "import torch; print(torch.backends.cpu.get_cpu_capability())"
    done = subprocess.run(
        [sys.executable, "-c", code], env=_environment(None), capture_output=True, text=True
    )
    names = list(INSTRUCTIONS)
    best = done.stdout.strip()
    return tuple(names[names.index(best) :]) if best in names else ("plain",)


def _environment(instructions: str | None) -> dict[str, str]:
    """The environment of a process that uses an instruction set; the host's best for None."""
    environment = {name: value for name, value in os.environ.items() if name not in _LIMITS}
    if instructions in INSTRUCTIONS:
        environment[_LIMITS[0]] = instructions.lower()
        environment[_LIMITS[1]] = INSTRUCTIONS[instructions]
    return environment


def _trained(
    training: Training, data: Path, instructions: str
) -> tuple[dict[str, Any], dict[str, Any], dict[str, float]]:
    """Header, arrays and last metrics of a training in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="pmoss-retraining-") as folder:
        checkpoint = Path(folder) / f"agent{checkpoints.SUFFIX}"
        order = json.dumps([training.agent, dict(training.config), str(data), str(checkpoint)])
        done = subprocess.run(
            [sys.executable, "-m", __name__],
            input=order,
            env=_environment(instructions),
            capture_output=True,
            text=True,
        )
        if done.returncode:
            reason = (done.stderr.strip() or f"status {done.returncode}").splitlines()[-1]
            raise CheckpointError(f"{training.words}: training it again failed: {reason}")
        header, arrays = checkpoints.read(checkpoint)
        return header, arrays, json.loads(done.stdout.splitlines()[-1])


def _main() -> None:
    """Trains as standard input says, and prints the last metrics."""
    agent, config, data, checkpoint = json.loads(sys.stdin.read())
    learner = agent_class(agent)(**config)
    metrics = learner.fit(load(data))  # type: ignore[attr-defined]
    learner.save(checkpoint)
    print(json.dumps(metrics))


if __name__ == "__main__":
    _main()
