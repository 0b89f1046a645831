"""What decides the bits of a training, beside its config, its seed and its data.

Products and convolutions add up in another order on another instruction set, and in the other
kernels that MKL has for Intel's processors. The losses of two such trainings agree to five digits
for some 20 updates. Then they part, as those of two seeds do.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

from pmoss_env.provenance import changed_since, code_of, describe_machine

#: Instruction sets by torch's names, the best first, and the names of the same in oneDNN.
INSTRUCTIONS = {"AVX512": "AVX512_CORE", "AVX2": "AVX2", "DEFAULT": "SSE41"}
#: The updates whose losses a checkpoint keeps.
FIRST = 20
#: Facts of a training that are equal where it gives the same bits.
SAME_BITS = ("torch", "instructions", "vendor")


def conditions_of(module: str) -> dict[str, Any]:
    """The conditions of a training in this process, as plain JSON values.

    Returns:
        ``code``, digests by folder. Where torch was imported also ``torch``, its version,
        ``instructions``, one of INSTRUCTIONS, and ``vendor`` of the processor.
    """
    conditions: dict[str, Any] = {"code": _code_of(module)}
    if (torch := sys.modules.get("torch")) is not None:
        conditions |= {
            "torch": torch.__version__,
            "instructions": torch.backends.cpu.get_cpu_capability(),
            "vendor": describe_machine().get("cpu_vendor", "unknown"),
        }
    return conditions


@cache
def _code_of(module: str) -> dict[str, Any]:
    return code_of([module])


def same_bits(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    """Whether two trainings of the same code give the same bits."""
    return all(mine.get(fact) == theirs.get(fact) for fact in SAME_BITS)


def changed_code(conditions: Mapping[str, Any]) -> list[str]:
    """Folders whose code has changed since; none where no code is named."""
    code = conditions.get("code") or {}
    return changed_since(code) if code.get("modules") else []


def joined(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """The conditions of a training that goes on.

    Args:
        before: those that it began under; empty if they are unknown.

    Returns:
        Those of now. ``mixed`` is true where they are not those from the beginning.
    """
    # Digests of an earlier form are others, of the same code.
    same_code = bool(before.get("code")) and not changed_code(before)
    alike = same_code and same_bits(before, now)
    mixed = bool(before.get("mixed")) or not alike
    return {**now, **({"mixed": True} if mixed else {})}
