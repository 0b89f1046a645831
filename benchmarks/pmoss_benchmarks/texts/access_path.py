"""Blocks about access paths: real scans."""

from __future__ import annotations

from pmoss_benchmarks.texts.stored import Stored, made, table


def scan(stored: Stored) -> str:
    """What a real scan gets of a core's bandwidth."""
    lines = []
    for path in sorted((stored.folder / "performance").glob("*.json")):
        report = stored[f"performance/{path.name}"]
        figures = {f["name"]: f for f in report["parts"].get("scan", {"figures": ()})["figures"]}
        cells = [
            (name, f"{figure['median']:.1f}", f"{figure['high']:.1f}")
            for name, figure in figures.items()
            if figure["unit"] == "GB/s"
        ]
        if cells:
            lines += [table(["one core", "median, GB/s", "best round, GB/s"], cells), ""]
            made_so = {**report, "command": report["parts"]["scan"]["command"]}
            lines += [made(made_so, f"benchmarks/results/performance/{path.name}"), ""]
    return "\n".join(lines)


BLOCKS = {
    "real-scans": scan,
}
