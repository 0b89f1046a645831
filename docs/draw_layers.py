"""Writes layers.svg beside it: the layers of the project, their folders, and who imports whom.

A box is a folder of a package, or the files beside its folders. An arrow points from a folder to
one that it imports. The files of a layer stand at its left, the other folders after those that
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
PICTURE = Path(__file__).parent / "development" / "layers.svg"
#: From the bottom up: the name of a layer and its folder.
LAYERS = {
    "native": REPOSITORY / "native",
    "pmoss_env": REPOSITORY / "pmoss_env",
    "pmoss_datasets": REPOSITORY / "datasets" / "pmoss_datasets",
    "pmoss_agents": REPOSITORY / "agents" / "pmoss_agents",
    "pmoss_benchmarks": REPOSITORY / "benchmarks" / "pmoss_benchmarks",
}
#: Folders of native/ that are no part of the layer.
_ASIDE = ("tests", "bench", "bindings", "examples", "portable")
_SOURCES = (".py", ".cpp", ".hpp", ".inc")
#: Sizes of the picture, in pixels.
WIDTH, LAYER_HEIGHT, BOX_HEIGHT, LEFT, GAP = 1400, 190, 44, 190, 14

Folder = tuple[str, str]


def files_of(layer: str) -> Iterator[tuple[Folder, Path]]:
    """The source files of a layer, each with its folder."""
    for path in sorted(LAYERS[layer].rglob("*")):
        parts = path.relative_to(LAYERS[layer]).parts
        if path.suffix in _SOURCES and path.is_file() and "__pycache__" not in parts:
            # The thread environment and its like are folders below envs.
            deep = 2 if parts[0] == "envs" and len(parts) > 2 else 1
            name = "/".join(parts[:deep]) if len(parts) > 1 else ""
            if not (layer == "native" and name in _ASIDE):
                yield (layer, name or "files"), path


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


def measured() -> tuple[dict[Folder, int], Counter[tuple[Folder, Folder]]]:
    """The lines of every folder, and how many imports lead from one folder to another."""
    lines: dict[Folder, int] = Counter()
    sources: list[tuple[Folder, Path]] = []
    for layer in LAYERS:
        for folder, path in files_of(layer):
            lines[folder] += path.read_text(encoding="utf-8").count("\n")
            sources.append((folder, path))
    arrows: Counter[tuple[Folder, Folder]] = Counter()
    for folder, path in sources:
        for parts in imported(path):
            if parts[:2] == ("pmoss_env", "_native"):
                continue
            for depth in (2, 1, 0):
                target = (parts[0], "/".join(parts[1 : depth + 1]) or "files")
                if target in lines:
                    if target != folder:
                        arrows[folder, target] += 1
                    break
    return dict(lines), arrows


def order(
    layer: str, lines: dict[Folder, int], arrows: Counter[tuple[Folder, Folder]]
) -> list[Folder]:
    """The folders of a layer, each after those that it imports."""
    left = [folder for folder in lines if folder[0] == layer]
    placed: list[Folder] = []
    while left:
        # The folder with the fewest imports of folders that are not placed yet: none, if no circle.
        folder = min(
            left,
            key=lambda r: (r[1] != "files", sum(1 for o in left if arrows[r, o] and o != r), r),
        )
        left.remove(folder)
        placed.append(folder)
    return placed


def picture() -> str:
    """The drawing as SVG."""
    lines, arrows = measured()
    height = LAYER_HEIGHT * len(LAYERS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="12">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" '
        'markerHeight="6" orient="auto"><path d="M0 0 8 4 0 8z" fill="#7a8794"/></marker></defs>',
    ]
    centre: dict[Folder, tuple[float, float]] = {}
    boxes: list[str] = []
    for number, layer in enumerate(LAYERS):
        top = height - LAYER_HEIGHT * (number + 1)
        shade = "#f6f8fa" if number % 2 else "#eef2f6"
        parts.append(f'<rect y="{top}" width="{WIDTH}" height="{LAYER_HEIGHT}" fill="{shade}"/>')
        total = sum(size for folder, size in lines.items() if folder[0] == layer)
        parts.append(
            f'<text x="12" y="{top + 24}" font-size="15" font-weight="bold">{layer}</text>'
            f'<text x="12" y="{top + 42}" fill="#57606a">{total / 1000:.1f}k lines</text>'
        )
        folders = order(layer, lines, arrows)
        width = (WIDTH - LEFT - GAP) / len(folders) - GAP
        for place, folder in enumerate(folders):
            x = LEFT + place * (width + GAP)
            y = top + 110
            centre[folder] = (x + width / 2, y)
            label = folder[1].removeprefix("envs/")
            size = max(7.0, min(12.0, 1.75 * width / max(len(label), 1)))
            boxes.append(
                f'<rect x="{x:.0f}" y="{y}" width="{width:.0f}" height="{BOX_HEIGHT}" rx="5" '
                'fill="white" stroke="#57606a"/>'
                f'<text x="{x + width / 2:.0f}" y="{y + 19}" text-anchor="middle" '
                f'font-size="{size:.1f}">{escape(label)}</text>'
                f'<text x="{x + width / 2:.0f}" y="{y + 35}" text-anchor="middle" '
                f'fill="#57606a" font-size="10">{lines[folder] / 1000:.1f}k</text>'
            )
    down: Counter[tuple[str, str]] = Counter()
    for (folder, target), count in sorted(arrows.items()):
        if folder[0] != target[0]:
            down[folder[0], target[0]] += count
            continue
        (x1, y1), (x2, y2) = centre[folder], centre[target]
        lift = 12 + 62 * min(1.0, abs(x1 - x2) / 900)
        parts.append(
            f'<path d="M{x1:.0f} {y1}C{x1:.0f} {y1 - lift:.0f} {x2:.0f} {y1 - lift:.0f} '
            f'{x2:.0f} {y2}" fill="none" stroke="#7a8794" stroke-opacity="0.55" '
            f'stroke-width="{min(0.7 + count / 12, 3):.1f}" marker-end="url(#tip)"/>'
        )
    names = list(LAYERS)
    for (above, below), count in sorted(down.items()):
        base = height - LAYER_HEIGHT * names.index(above) - 14
        parts.append(
            f'<text x="12" y="{base - 14 * names.index(below):.0f}" fill="#57606a" '
            f'font-size="10">{count} imports of {below}</text>'
        )
    return "\n".join([*parts, *boxes, "</svg>"]) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
