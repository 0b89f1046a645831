"""A fitted Decision Transformer as one TorchScript file, for programs without this package.

The file's ``forward`` is that of decision_network.Step: tensors of one state in, scores of the core
tiles out, keys and values kept in a cache that the caller owns. Its extra file ``pmoss.json`` says
for which task it is, the shape of the cache, the target and the decoding.

Unlike a checkpoint, which holds numbers alone, a TorchScript file is a program: load only what you
trust.
"""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pmoss_agents.pytorch import torch
from pmoss_agents.spatial.decision_network import STATE, Decoder, Step
from pmoss_agents.spatial.decision_transformer import DecisionTransformer
from pmoss_env import __version__
from pmoss_env.errors import CheckpointError, DescriptionError
from pmoss_env.files import write_atomically

FORMAT = "pmoss-exported"
VERSION = 1
_HEADER = "pmoss.json"


def export_policy(agent: DecisionTransformer, path: str | Path) -> None:
    """Writes an agent as TorchScript, whole or not at all.

    Raises:
        CheckpointError: it was not fitted.
    """
    if agent.model is None:
        raise CheckpointError(f"{agent.name}: nothing to export: call fit() or load a checkpoint")
    agent.model.eval()
    step = Step(agent.model)
    rows, cols = agent.task["grid"]
    tiles, counters = rows * cols, len(agent.task["counters"])
    shapes = {
        "view_mask": (tiles,),
        "position_mask": (tiles,),
        "machine_view": (tiles, counters),
        "incumbent_view": (tiles, counters),
        "slice_view": (counters,),
        "meta": (agent.task["meta"],),
    }
    example = (
        *(torch.ones(shapes[name]) for name in STATE),
        torch.tensor(1.0),
        torch.tensor(0),
        torch.tensor(1),
        torch.zeros(step.cache_shape),
    )
    with torch.no_grad(), warnings.catch_warnings():
        # Shapes never change, so what the tracer takes for constants is constant. And TorchScript,
        # deprecated or not, is what programs without Python can run.
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(step, example, check_trace=False)  # type: ignore[no-untyped-call]
    header = {
        "format": FORMAT,
        "version": VERSION,
        "code_version": __version__,
        "inputs": [*STATE, "return_to_go", "action", "step", "cache"],
        "cache_shape": list(step.cache_shape),
        "config": asdict(agent.config),
        "task": agent.task,
        "dataset": agent.dataset,
    }
    buffer = io.BytesIO()
    extra = {_HEADER: json.dumps(header, sort_keys=True).encode()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(traced, buffer, _extra_files=extra)
    write_atomically(path, buffer.getvalue())


def load_policy(path: str | Path) -> DecisionTransformer:
    """An agent that acts by an exported file; it cannot go on learning.

    Raises:
        CheckpointError: the file is missing, damaged, foreign or of another version.
    """
    extra: dict[str, Any] = {_HEADER: ""}
    try:
        # PyTorch's reader does not compare the bytes with their sums.
        with zipfile.ZipFile(path) as file:
            damaged = file.testzip()
    except FileNotFoundError as error:
        raise CheckpointError(f"{path}: does not exist") from error
    # A damaged container answers with many kinds of error, depending on the bytes.
    except Exception as error:
        raise CheckpointError(f"{path}: cannot be read as TorchScript: {error}") from error
    if damaged is not None:
        raise CheckpointError(f"{path}: cannot be read as TorchScript: {damaged} is damaged")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            step = torch.jit.load(  # type: ignore[no-untyped-call]
                str(path), map_location="cpu", _extra_files=extra
            )
        header = json.loads(extra[_HEADER] or "{}")
    except (RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise CheckpointError(f"{path}: cannot be read as TorchScript: {reason}") from error
    if header.get("format") != FORMAT or header.get("version") != VERSION:
        raise CheckpointError(
            f"{path}: is not an exported policy of version {VERSION}: it says "
            f"{header.get('format')!r}, version {header.get('version')!r}"
        )
    try:
        agent = DecisionTransformer(**header["config"])
        agent.task, agent.dataset = dict(header["task"]), dict(header["dataset"])
        agent.use(Decoder(step, tuple(header["cache_shape"])))
    except (DescriptionError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{path}: does not fit {DecisionTransformer.name}: {error}"
        ) from error
    return agent
