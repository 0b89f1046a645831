"""Blocks about access paths: real scans, and this host's calibration."""

from __future__ import annotations

from pmoss_benchmarks.texts.stored import Stored, made, table


def calibration(stored: Stored) -> str:
    """What ``calibrate`` said of a host."""
    report = stored["access-path/calibration.json"]
    lines = [f"- {engine['conclusion']}" for engine in report["engines"]]
    for engine in report["engines"]:
        if engine["absent"]:
            continue
        largest = max(cell["megabytes"] for cell in engine["combinations"])
        shown = [c for c in engine["combinations"] if c["megabytes"] == largest]
        shown.sort(key=lambda cell: (float(cell["share"]), int(cell["background"])))
        cells = [
            (
                f"{cell['share']:.1%}",
                f"{cell['background']}",
                *(f"{cell['megabytes'] * 1e3 / cell[key]:.2f}" for key in _PATHS),
                "copies" if cell["engine_wins"] else "loads",
            )
            for cell in shown
        ]
        columns = ["rows that match", "background threads", "loads, GB/s", "copies, GB/s"]
        lines += ["", f"Columns of {largest:g} MB, medians.", ""]
        lines += [table([*columns, "wins"], cells)]
    return "\n".join([*lines, "", made(report, "benchmarks/results/access-path/calibration.json")])


_PATHS = ("us_by_loads", "us_by_engine")


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
    "calibration": calibration,
    "real-scans": scan,
}
