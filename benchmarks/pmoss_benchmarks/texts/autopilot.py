"""The block about the loop on a real host: null changes, and its worth beside other ways."""

from __future__ import annotations

from pmoss_benchmarks.autopilot.comparison import GOALS, rate_in_words, summary
from pmoss_benchmarks.texts.stored import Stored, made

_WORDS = {"made": "a schedule made for each phase", "stay": "staying"}


def worth(stored: Stored) -> str:
    """What was measured, with the load of the host beside it."""
    lines: list[str] = []
    for path in sorted((stored.folder / "autopilot").glob("*.json")):
        report = stored[f"autopilot/{path.name}"]
        found = summary(report["cells"])
        low, high = found["host_load"]
        if null := found.get("null"):
            lines.append(
                f"Of {null['trials']:,} trials of a schedule against itself {null['kept']} were "
                f"kept: {rate_in_words(null)}, a 95 % interval."
            )
        for name in GOALS:
            if one := found.get(name):
                lines.append(
                    f"The loop served {one['ratio']:.2f} times what {_WORDS[name]} did, "
                    f"{one['least']:.2f} to {one['most']:.2f} in {one['blocks']} blocks; wanted "
                    f"were {one['goal']:g}."
                )
        lines += [
            f"The load average of the host was {low:g} to {high:g}, with the loop's own threads.",
            "",
            made(report, f"benchmarks/results/autopilot/{path.name}"),
            "",
        ]
    return "\n".join(lines).rstrip()


BLOCKS = {"autopilot": worth}
