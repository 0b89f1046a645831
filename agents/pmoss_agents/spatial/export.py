"""A fitted Decision Transformer as one TorchScript file, for programs without this package.

The file's ``forward`` is that of decision_network.Step: tensors of one state in, scores of the core
tiles out, keys and values kept in a cache that the caller owns. Its extra file ``pmoss.json`` says
for which task it is, the shape of the cache, the target and the decoding.

Unlike a checkpoint, which holds numbers alone, a TorchScript file is a program: load only what you
trust. export_weights() writes
weights and description alone, for programs with this package.
"""

from __future__ import annotations

import io
import json
import math
import warnings
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pmoss_agents.pytorch import torch
from pmoss_agents.spatial.decision_network import STATE, Decoder, Step
from pmoss_agents.spatial.decision_transformer import DecisionTransformer
from pmoss_agents.spatial.encoders import check_era
from pmoss_env import __version__
from pmoss_env.errors import CheckpointError, DescriptionError
from pmoss_env.files import check_regular, parse_json, write_atomically

FORMAT = "pmoss-exported"
VERSION = 1
_HEADER = "pmoss.json"
#: Numbers in the cache of an episode.
_MOST_CACHE = 2**28


def export_policy(agent: DecisionTransformer, path: str | Path) -> None:
    """Writes an agent as TorchScript, whole or not at all.

    Raises:
        CheckpointError: it was not fitted, or does more than one step of the network.
    """
    if agent.network is None:
        raise CheckpointError(f"{agent.name}: nothing to export: call fit() or load a checkpoint")
    if agent.name != DecisionTransformer.name:
        raise CheckpointError(
            f"{agent.name}: a program of one step cannot judge what it proposes: export to "
            ".safetensors"
        )
    if agent.config.complete:
        raise CheckpointError(
            f"{agent.name}: complete = true: a program sees one slice a step: export to "
            ".safetensors"
        )
    agent.network.eval()
    step = Step(agent.network)
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


def export_weights(agent: DecisionTransformer, path: str | Path) -> None:
    """Writes an agent's weights and description, without the state of its learning.

    The file is a checkpoint, in which there is no code; a third as large as one that can go on.
    """
    if agent.network is None:
        raise CheckpointError(f"{agent.name}: nothing to export: call fit() or load a checkpoint")
    agent.forget_moments()
    agent.save(path)


def load_policy(path: str | Path, *, trust: bool = False) -> DecisionTransformer:
    """An agent that acts by an exported program; it cannot go on learning.

    Args:
        trust: whether its code may run.

    Raises:
        CheckpointError: the file is missing, damaged, foreign, of another version or not trusted.
    """
    # All that can be known without the file's code, which loading runs.
    header = _header_of(Path(path))
    if header.get("format") != FORMAT or header.get("version") != VERSION:
        raise CheckpointError(
            f"{path}: is not an exported policy of version {VERSION}: it says "
            f"{header.get('format')!r}, version {header.get('version')!r}"
        )
    if not trust:
        raise CheckpointError(
            f"{path}: is a program, which runs when it is loaded: take the checkpoint, or an "
            "export in .safetensors; if you trust its author: --trust, or trust=True"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            step = torch.jit.load(  # type: ignore[no-untyped-call]
                str(path), map_location="cpu"
            )
    except (LookupError, RuntimeError, ValueError) as error:
        reason = (str(error).strip() or "damaged").splitlines()[0]
        raise CheckpointError(f"{path}: cannot be read as TorchScript: {reason}") from error
    try:
        check_era(dict(header["config"]))
        agent = DecisionTransformer(**header["config"])
        agent.task, agent.dataset = dict(header["task"]), dict(header["dataset"])
        shape = header["cache_shape"]
        if len(shape) > 8 or math.prod(shape) > _MOST_CACHE:
            raise ValueError(f"cache_shape = {shape}: is too large")
        agent.use(Decoder(step, tuple(shape)))
        agent._foresight()  # refuses what was altered
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from error
    except (DescriptionError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{path}: does not fit {DecisionTransformer.name}: {error}"
        ) from error
    return agent


def _header_of(path: Path) -> dict[str, Any]:
    """The description in an export; PyTorch's own reader would run the code beside it."""
    try:
        check_regular(path)
        # PyTorch's reader does not compare the bytes with their sums.
        with zipfile.ZipFile(path) as file:
            if sum(entry.file_size for entry in file.infolist()) > 4 * path.stat().st_size + 2**24:
                raise ValueError("declares more than it holds")
            if (damaged := file.testzip()) is not None:
                raise ValueError(f"{damaged} is damaged")
            names = [name for name in file.namelist() if name.endswith(f"/extra/{_HEADER}")]
            header = parse_json(file.read(names[0])) if names else {}
    except FileNotFoundError as error:
        raise CheckpointError(f"{path}: does not exist") from error
    # A damaged container answers with many kinds of error, depending on the bytes.
    except Exception as error:
        raise CheckpointError(f"{path}: cannot be read as TorchScript: {error}") from error
    return header if isinstance(header, dict) else {}
