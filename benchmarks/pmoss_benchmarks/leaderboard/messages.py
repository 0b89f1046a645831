"""What a player's process gets: observations and contexts as plain JSON.

Nothing of it names the episode. The state of a generator leads back to its seed, and a snapshot's
provenance holds seeds. So a player gets chance of its own, and no provenance.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from pmoss_env.backends.frames import pack_schedule, pack_snapshot, unpack_schedule, unpack_snapshot
from pmoss_env.context import Context


def pack(value: Any) -> Any:
    """An array, or arrays by name, as plain JSON."""
    if isinstance(value, Mapping):
        return {name: pack(each) for name, each in value.items()}
    array = np.ascontiguousarray(value)
    return [array.dtype.str, list(np.shape(value)), base64.b64encode(array.tobytes()).decode()]


def unpack(plain: Any) -> Any:
    """The arrays of pack(); they may be written to."""
    if isinstance(plain, Mapping):
        return {name: unpack(each) for name, each in plain.items()}
    kind, shape, content = plain
    return np.frombuffer(base64.b64decode(content), kind).reshape(shape).copy()


#: Arrays of a context, and its plain values.
_ARRAYS = ("order", "slices_of_node")
_PLAIN = ("slices", "max_slices_per_core", "chooses_node")


def pack_context(context: Context, key: bytes) -> dict[str, Any]:
    """A context as plain JSON: without machine, backend, measurements and provenance.

    Args:
        key: that the player does not have. Its chance derives from this key and the episode's
            generator, so that it leads back to neither.
    """
    plain: dict[str, Any] = {name: getattr(context, name) for name in _PLAIN}
    for name in _ARRAYS:
        value = getattr(context, name)
        plain[name] = None if value is None else pack(value)
    plain["incumbent"] = None if context.incumbent is None else pack_schedule(context.incumbent)
    plain["snapshot"] = None
    if context.snapshot is not None:
        plain["snapshot"] = pack_snapshot(replace(context.snapshot, provenance={}))
    plain["seed"] = hmac.digest(key, context.rng.bytes(32), "sha256").hex()
    return plain


def unpack_context(plain: Mapping[str, Any]) -> Context:
    """The context of pack_context(), whose machine is still missing."""
    values: dict[str, Any] = {name: plain[name] for name in _PLAIN}
    for name in _ARRAYS:
        values[name] = None if plain[name] is None else unpack(plain[name])
    if plain["incumbent"] is not None:
        values["incumbent"] = unpack_schedule(plain["incumbent"])
    if plain["snapshot"] is not None:
        values["snapshot"] = unpack_snapshot(plain["snapshot"])
    rng = np.random.default_rng(int(plain["seed"], 16))
    return Context(machine=None, rng=rng, **values)  # type: ignore[arg-type]
