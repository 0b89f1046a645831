"""Seeded damage: to bytes, to lines, and to the values of JSON and TOML."""

import json
import re
from typing import Any

import numpy as np

from tests.faults.tampering import FRAGMENT

#: What a hostile writer might put in place of a value.
VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 2**31, 2**63, 2**64, 10**12, 10**30, -(2**63)),
    *(0.5, -0.0, 1e-320, 1e300, 1e308, float("nan"), float("inf")),
    *("", "x", "a[/b]", "\x1b[2J", "\ud800", "a\nb", "../../x", "/dev/zero", "/etc/passwd"),
    *(f"{FRAGMENT}:make", "os:system", "random:" + "9" * 5000, "open:1_000", "closed:9999999999"),
    *([], {}, [[]], [1] * 1000, {"a": {"b": {}}}, "x" * 100_000, [None], ["os:system"]),
)
_TOML = ("-1", "0", "1e308", "nan", "inf", "true", '""', "[]", "{}", "[[]]", "'a[/b]'", "[1, 2]")
_TOML_MORE = ("99999999999999999999", f"'{FRAGMENT}:make'", "1e300", "1000000", "'/dev/zero'", "0x")


def mutated(data: bytes, text: str, rng: np.random.Generator) -> bytes:
    """Other contents for a file: one to three changes, some of them to what it says."""
    for _ in range(int(rng.integers(1, 4))):
        meaning = text and rng.random() < 0.7
        try:
            data = _MEANINGS[text](data, rng) if meaning else _bytes(data, rng)
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):
            # An earlier change left nothing to understand.
            data = _bytes(data, rng)
    return data


def _bytes(data: bytes, rng: np.random.Generator) -> bytes:
    if not data:
        return b"\0"
    at, size = int(rng.integers(len(data))), int(rng.integers(1, 64))
    ways = (
        lambda: data[:at] + bytes([data[at] ^ (1 << int(rng.integers(8)))]) + data[at + 1 :],
        lambda: data[:at],
        lambda: data[:at] + rng.bytes(size) + data[at + size :],
        lambda: data[:at] + data[at + size :],
        lambda: data[:at] + data[at : at + size] * 3 + data[at + size :],
        lambda: data[:at] + b"\0" * size + data[at + size :],
        lambda: data[:at] + b"\xff" * 8 + data[at + 8 :],
        lambda: b"",
    )
    return ways[int(rng.integers(len(ways)))]()


def _json(data: bytes, rng: np.random.Generator) -> bytes:
    tree = json.loads(data)
    places: list[tuple[Any, Any]] = []
    _walk(tree, places)
    holder, key = places[int(rng.integers(len(places)))]
    way = rng.random()
    if way < 0.15:
        del holder[key]
    elif way < 0.2 and isinstance(holder, dict):
        holder["surprise"] = _value(rng)
    elif way < 0.25:
        return data.replace(json.dumps(holder[key]).encode(), b"[" * 50_000, 1)
    elif way < 0.6 and isinstance(holder[key], str):
        # JSON within JSON, as Minari has it, and names that look right.
        holder[key] = holder[key].replace(holder[key][:3], str(_value(rng))[:50])
    else:
        holder[key] = _value(rng)
    return json.dumps(tree).encode()


def _walk(tree: Any, places: list[tuple[Any, Any]]) -> None:
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in pairs:
        places.append((tree, key))
        if isinstance(value, dict | list):
            _walk(value, places)


def _jsonl(data: bytes, rng: np.random.Generator) -> bytes:
    lines = data.splitlines()
    which = int(rng.integers(len(lines)))
    lines[which] = _json(lines[which], rng)
    return b"\n".join(lines) + b"\n"


def _toml(data: bytes, rng: np.random.Generator) -> bytes:
    lines = data.decode().splitlines()
    settings = [i for i, line in enumerate(lines) if re.match(r"\s*[\w\".-]+ *=", line)]
    which = settings[int(rng.integers(len(settings)))]
    key, _, value = lines[which].partition("=")
    choices = _TOML + _TOML_MORE
    chosen = choices[int(rng.integers(len(choices)))]
    way = rng.random()
    if way < 0.15:
        lines[which] = ""
    elif way < 0.2:
        lines[which] = f"surprise = {chosen}"
    elif way < 0.25:
        lines[which] = f"{key}= " + "[" * 20_000
    elif way < 0.6 and re.search(r"[0-9.]+", value):
        lines[which] = f"{key}={re.sub(r'[0-9.]+', lambda _: chosen, value, count=1)}"
    else:
        lines[which] = f"{key}= {chosen}"
    return "\n".join(lines).encode()


def _lines(data: bytes, rng: np.random.Generator) -> bytes:
    words = [match.span() for match in re.finditer(rb"[0-9.]+", data)]
    start, end = words[int(rng.integers(len(words)))]
    chosen = (b"-1", b"nan", b"1e308", b"1_0", b"", b"9" * 30, b"0", b"x", b"inf", b"65536", b"2")
    return data[:start] + chosen[int(rng.integers(len(chosen)))] + data[end:]


def _value(rng: np.random.Generator) -> Any:
    return VALUES[int(rng.integers(len(VALUES)))]


_MEANINGS = {"json": _json, "jsonl": _jsonl, "toml": _toml, "lines": _lines}
