"""Writes house.svg beside it: the floors of the project, their rooms, and who imports whom.

A room is a folder of a package, or the files that lie loose in it. An arrow points from a room to
one that it imports. The loose files of a floor stand at its left, the other rooms after those that
they import.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape

REPOSITORY = Path(__file__).resolve().parents[1]
PICTURE = Path(__file__).parent / "development" / "house.svg"
#: From the ground up: the name of a floor and its folder.
FLOORS = {
    "native": REPOSITORY / "native",
    "pmoss_env": REPOSITORY / "pmoss_env",
    "pmoss_datasets": REPOSITORY / "datasets" / "pmoss_datasets",
    "pmoss_agents": REPOSITORY / "agents" / "pmoss_agents",
    "pmoss_benchmarks": REPOSITORY / "benchmarks" / "pmoss_benchmarks",
}
#: What is no room of a floor of C++: what lies beside it.
_ASIDE = ("tests", "bench", "bindings", "examples", "portable")
_SOURCES = (".py", ".cpp", ".hpp", ".inc")
#: Sizes of the picture, in pixels.
WIDTH, FLOOR_HEIGHT, BOX_HEIGHT, LEFT, GAP = 1400, 190, 44, 190, 14

Room = tuple[str, str]


def files_of(floor: str) -> Iterator[tuple[Room, Path]]:
    """The source files of a floor, each with its room."""
    for path in sorted(FLOORS[floor].rglob("*")):
        parts = path.relative_to(FLOORS[floor]).parts
        if path.suffix in _SOURCES and path.is_file() and "__pycache__" not in parts:
            # The thread environment and its like are rooms below envs.
            deep = 2 if parts[0] == "envs" and len(parts) > 2 else 1
            name = "/".join(parts[:deep]) if len(parts) > 1 else ""
            if not (floor == "native" and name in _ASIDE):
                yield (floor, name or "files"), path


def imported(path: Path) -> Iterator[tuple[str, ...]]:
    """What a file imports, in parts: packages and modules, or the folder of a header."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                yield from (tuple(alias.name.split(".")) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    yield (*node.module.split("."), alias.name)
    else:
        for folder in re.findall(r'^#include "(\w+)/', text, re.MULTILINE):
            yield ("native", folder)


def house() -> tuple[dict[Room, int], Counter[tuple[Room, Room]]]:
    """The lines of every room, and how many imports lead from one room to another."""
    lines: dict[Room, int] = Counter()
    sources: list[tuple[Room, Path]] = []
    for floor in FLOORS:
        for room, path in files_of(floor):
            lines[room] += path.read_text(encoding="utf-8").count("\n")
            sources.append((room, path))
    arrows: Counter[tuple[Room, Room]] = Counter()
    for room, path in sources:
        for parts in imported(path):
            if parts[:2] == ("pmoss_env", "_native"):
                continue
            for depth in (2, 1, 0):
                target = (parts[0], "/".join(parts[1 : depth + 1]) or "files")
                if target in lines:
                    if target != room:
                        arrows[room, target] += 1
                    break
    return dict(lines), arrows


def order(floor: str, lines: dict[Room, int], arrows: Counter[tuple[Room, Room]]) -> list[Room]:
    """The rooms of a floor, each after those that it imports."""
    left = [room for room in lines if room[0] == floor]
    placed: list[Room] = []
    while left:
        # The room with the fewest imports of rooms that are not placed yet: none, if no circle.
        room = min(
            left,
            key=lambda r: (r[1] != "files", sum(1 for o in left if arrows[r, o] and o != r), r),
        )
        left.remove(room)
        placed.append(room)
    return placed


def picture() -> str:
    """The drawing as SVG."""
    lines, arrows = house()
    height = FLOOR_HEIGHT * len(FLOORS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="12">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" '
        'markerHeight="6" orient="auto"><path d="M0 0 8 4 0 8z" fill="#7a8794"/></marker></defs>',
    ]
    centre: dict[Room, tuple[float, float]] = {}
    boxes: list[str] = []
    for number, floor in enumerate(FLOORS):
        top = height - FLOOR_HEIGHT * (number + 1)
        shade = "#f6f8fa" if number % 2 else "#eef2f6"
        parts.append(f'<rect y="{top}" width="{WIDTH}" height="{FLOOR_HEIGHT}" fill="{shade}"/>')
        total = sum(size for room, size in lines.items() if room[0] == floor)
        parts.append(
            f'<text x="12" y="{top + 24}" font-size="15" font-weight="bold">{floor}</text>'
            f'<text x="12" y="{top + 42}" fill="#57606a">{total / 1000:.1f}k lines</text>'
        )
        rooms = order(floor, lines, arrows)
        width = (WIDTH - LEFT - GAP) / len(rooms) - GAP
        for place, room in enumerate(rooms):
            x = LEFT + place * (width + GAP)
            y = top + 110
            centre[room] = (x + width / 2, y)
            label = room[1].removeprefix("envs/")
            size = max(7.0, min(12.0, 1.75 * width / max(len(label), 1)))
            boxes.append(
                f'<rect x="{x:.0f}" y="{y}" width="{width:.0f}" height="{BOX_HEIGHT}" rx="5" '
                'fill="white" stroke="#57606a"/>'
                f'<text x="{x + width / 2:.0f}" y="{y + 19}" text-anchor="middle" '
                f'font-size="{size:.1f}">{escape(label)}</text>'
                f'<text x="{x + width / 2:.0f}" y="{y + 35}" text-anchor="middle" '
                f'fill="#57606a" font-size="10">{lines[room] / 1000:.1f}k</text>'
            )
    down: Counter[tuple[str, str]] = Counter()
    for (room, target), count in sorted(arrows.items()):
        if room[0] != target[0]:
            down[room[0], target[0]] += count
            continue
        (x1, y1), (x2, y2) = centre[room], centre[target]
        lift = 12 + 62 * min(1.0, abs(x1 - x2) / 900)
        parts.append(
            f'<path d="M{x1:.0f} {y1}C{x1:.0f} {y1 - lift:.0f} {x2:.0f} {y1 - lift:.0f} '
            f'{x2:.0f} {y2}" fill="none" stroke="#7a8794" stroke-opacity="0.55" '
            f'stroke-width="{min(0.7 + count / 12, 3):.1f}" marker-end="url(#tip)"/>'
        )
    names = list(FLOORS)
    for (above, below), count in sorted(down.items()):
        base = height - FLOOR_HEIGHT * names.index(above) - 14
        parts.append(
            f'<text x="12" y="{base - 14 * names.index(below):.0f}" fill="#57606a" '
            f'font-size="10">{count} imports of {below}</text>'
        )
    return "\n".join([*parts, *boxes, "</svg>"]) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
