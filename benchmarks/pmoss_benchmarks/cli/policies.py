"""Policies that a command is told of: baselines by name, agents by their checkpoints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

PadOption = Annotated[
    bool,
    typer.Option(
        "--pad",
        help="Let agents place slices on a smaller machine than that of their data: its grid is "
        "padded to theirs and masked.",
    ),
]


def named_policies(
    baselines: Sequence[str],
    checkpoints: Sequence[Path] | None,
    budget: int | None = None,
    *,
    pad: bool = False,
) -> dict[str, Any]:
    """The policies by name, a checkpoint's being that of its file.

    Args:
        baselines: names.
        checkpoints: files of agents.
        budget: evaluations of baselines that search; their own default if None.
        pad: let agents place slices on smaller machines than that of their data.

    Raises:
        DescriptionError: two of the same name.
    """
    from pmoss_env.baselines import SEARCHES, make_baseline
    from pmoss_env.errors import DescriptionError
    from pmoss_env.policies import SchedulePolicy

    names = [*baselines, *(path.stem for path in checkpoints or [])]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise DescriptionError(
            f"more than one policy is named {', '.join(map(repr, twice))}: checkpoints go by their "
            "file's name without its ending; rename the file, or leave one out"
        )
    policies: dict[str, Any] = {
        name: SchedulePolicy(make_baseline(name, budget=budget if name in SEARCHES else None))
        for name in baselines
    }
    if checkpoints:
        import pmoss_agents
        from pmoss_agents.spatial.padded import PaddedAgent

        for path in checkpoints:
            agent = pmoss_agents.load(path)
            policies[path.stem] = PaddedAgent(agent) if pad else agent
    return policies
