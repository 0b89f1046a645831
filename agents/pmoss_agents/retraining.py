"""Trainings made again: does the same config, seed and data give the same agent?

Under the conditions of the first training all bits must be equal: of the weights, of the first
losses, and of what else the agent acts by, such as its generator. An agent that acted before it
was saved is another one. A host that has more instructions than those trains with fewer.
Elsewhere, or where the code has changed, the first losses must agree within TOLERANCE: what comes
after them parts as two seeds do.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from pmoss_agents import checkpoints
from pmoss_agents.conditions import INSTRUCTIONS, SAME_BITS, changed_code, same_bits
from pmoss_agents.registry import agent_class, registered_class
from pmoss_datasets.catalog import load
from pmoss_datasets.checked import check
from pmoss_env.errors import (
    CheckpointError,
    DatasetError,
    DescriptionError,
    UnknownNameError,
    UnsupportedError,
)

#: By how much of itself a loss of the first updates may differ on another host. Nine sets of
#: kernels differed by at most 0.000013 after 20 updates of bc, cql and iql.
TOLERANCE = 1e-3
#: What torch and oneDNN read their instruction sets from.
_LIMITS = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA")


@dataclass(frozen=True)
class Retrained:
    """The result of a repeated training.

    Attributes:
        mismatches: one line for each value that differs by more than it may.
    """

    verdict: str
    mismatches: tuple[str, ...] = ()


def retrain(path: Path, root: Path | None = None) -> Retrained:
    """Makes the training of a checkpoint again in a process of its own, and compares.

    A training that names no instruction set is made with each that this host has, the best first.

    Args:
        root: folder of datasets; None: the default one.

    Raises:
        CheckpointError: a damaged checkpoint, an agent that is not registered, or the training
            failed.
        UnsupportedError: a training that nothing can make again.
        DatasetError: the data are others.
    """
    header, arrays = checkpoints.read(path)
    if not header.get("dataset"):
        raise UnsupportedError(f"{path}: {header.get('agent')} learned by playing, not from data")
    if header.get("training"):
        _check(path, header)
    dataset, before = header["dataset"], header.get("training", {})
    if not before or before.get("mixed"):
        how = "is of an earlier version, which kept no conditions"
        how = "went on under other conditions than it began" if before else how
        raise UnsupportedError(f"{path}: its training {how}: it cannot be made again")
    data = load(dataset["id"], root)
    if data.checksum != dataset["checksum"]:
        raise DatasetError(
            f"{data.path}: has checksum {data.checksum[:12]}, but {path.name} learned from "
            f"{dataset['checksum'][:12]}: build it anew"
        )
    recorded = before.get("instructions")
    able = list(_instructions())
    tried = [recorded] if recorded in able else able[:1] if recorded else able
    mismatches: tuple[str, ...] = ()
    for instructions in tried:
        again, new = _trained(path.name, header, data.path, instructions)
        mismatches = tuple(_other_values(header, arrays, again, new))
        if not mismatches:
            return Retrained(f"all bits equal with {instructions}")
    if not recorded:
        verdict = f"other bits with {', '.join(tried)}; it names no instruction set"
        return Retrained(verdict, mismatches)
    now = again["training"]
    changed = changed_code(before)
    if same_bits(before, now) and not changed:
        return Retrained("other bits under the same conditions", mismatches)
    reasons = [*(["other code"] if changed else []), *_other_conditions(before, now)]
    far = tuple(_far_apart(before.get("losses", ()), now["losses"]))
    near = f"the first losses {'differ' if far else f'agree within {TOLERANCE:g}'}"
    return Retrained(f"{', '.join(reasons)}: {near}", far)


@dataclass(frozen=True)
class _Data:
    id: str
    checksum: str


@dataclass(frozen=True)
class _Code:
    modules: list[str]
    native: list[str]
    digests: dict[str, str]
    form: int = 1


@dataclass(frozen=True)
class _Training:
    code: _Code
    losses: list[float]
    torch: str = ""
    instructions: str = ""
    vendor: str = ""
    mixed: bool = False


@dataclass(frozen=True)
class _Facts:
    """The header of a checkpoint whose training can be made again."""

    agent: str
    config: dict[str, Any]
    task: dict[str, Any]
    values: dict[str, Any]
    dataset: _Data
    training: _Training
    code_version: str = ""


def _check(path: Path, header: Mapping[str, Any]) -> None:
    """Refuses a header that no training wrote, and an agent that is not registered.

    What a file names is never imported.
    """
    try:
        check(_Facts, header, f"{path}: ")
        registered_class(header["agent"])
    except DescriptionError as error:
        raise CheckpointError(f"{error}: no training wrote that: train it anew") from error
    except UnknownNameError as error:
        raise CheckpointError(
            f"{path}: {error}. An agent of your own needs an entry point in pmoss.agents to be "
            "trained again"
        ) from error


def _other_values(
    header: Mapping[str, Any], arrays: Mapping[str, Any], again: Mapping[str, Any], new: Any
) -> Iterator[str]:
    """One line for each fact and each array in which a training made again differs."""
    for name in ("task", "values"):
        if header[name] != again[name]:
            yield f"{name}: other values"
    if header["training"]["losses"] != again["training"]["losses"]:
        yield "training.losses: other values"
    for name in sorted({*arrays, *new}):
        if name not in arrays or name not in new or not np.array_equal(arrays[name], new[name]):
            yield f"{name}: other values"


def _other_conditions(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for fact in SAME_BITS:
        if before.get(fact) != now.get(fact):
            yield f"{fact} {before.get(fact)}, here {now.get(fact)}"


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
        [sys.executable, "-P", "-c", code], env=_environment(None), capture_output=True, text=True
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
    name: str, header: Mapping[str, Any], data: Path, instructions: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and arrays of a training that is made as a header says, in a process of its own.

    Args:
        name: of the checkpoint with this header, for messages.
    """
    with tempfile.TemporaryDirectory(prefix="pmoss-retraining-") as folder:
        checkpoint = Path(folder) / f"agent{checkpoints.SUFFIX}"
        order = json.dumps([header["agent"], header["config"], str(data), str(checkpoint)])
        done = subprocess.run(
            [sys.executable, "-P", "-m", __name__],
            input=order,
            env=_environment(instructions),
            capture_output=True,
            text=True,
        )
        if done.returncode:
            reason = (done.stderr.strip() or f"status {done.returncode}").splitlines()[-1]
            raise CheckpointError(f"{name}: training it again failed: {reason}")
        return checkpoints.read(checkpoint)


def _main() -> None:
    """Trains as standard input says."""
    agent, config, data, checkpoint = json.loads(sys.stdin.read())
    learner = agent_class(agent)(**config)
    learner.fit(load(data))  # type: ignore[attr-defined]
    learner.save(checkpoint)


if __name__ == "__main__":
    _main()
