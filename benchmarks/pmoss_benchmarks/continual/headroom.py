"""How much is left to learn where a running index drifts: opponents against oracles.

Every policy is tuned on episodes of its own first. All then meet the same episodes. What the best
opponent leaves to the law oracle is the headroom. A learned agent may play along: it is no
opponent, and what it gains on the best of them is told as a share of the headroom.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from pmoss_benchmarks.cells import Progress, Result, finish_cells
from pmoss_benchmarks.continual.games import (
    GRIDS,
    TUNING_SEED,
    Entrant,
    Game,
    Games,
    HeadroomOptions,
)
from pmoss_benchmarks.continual.stored_report import FORMAT, StoredReport, choices_of
from pmoss_benchmarks.evaluation.statistics import paired_difference, ratio_of_means
from pmoss_benchmarks.report import write_report
from pmoss_datasets.continual.domain import CONTINUAL, ORACLES
from pmoss_env.envs.continual import FAMILIES
from pmoss_env.errors import DescriptionError, UnknownNameError

#: A task is a standard one where the best opponent leaves at least this to the law oracle.
THRESHOLD = 0.10


def compare(
    drifts: Sequence[str],
    options: HeadroomOptions,
    *,
    policies: Sequence[str] | None = None,
    agents: Sequence[str] = (),
    tuned: Path | None = None,
    keep: Path | None = None,
    out: Path | None = None,
    processes: int = 1,
    progress: Progress = lambda done, total: None,
) -> list[dict[str, Any]]:
    """Tunes and compares the policies in every drift.

    Args:
        drifts: families.
        options: how.
        policies: keys of GRIDS; None: all. "law-oracle" and an opponent must be among them.
        agents: words of learned agents that play along, see pmoss_agents.find_policy().
        tuned: a report of the same drifts; policies are as they were tuned for it. None: they are
            tuned here.
        keep: a report of the same drifts and settings; its rows are kept, and only what it lacks is
            tuned and played.
        out: JSON file of the report; games go to a file beside it, and the same call goes on.
        processes: worker processes; the results do not depend on them.
        progress: called with (done, total) games.

    Returns:
        One entry per drift, see summary().

    Raises:
        UnknownNameError: no such drift or policy.
        DescriptionError: options, policies or agents that allow no comparison.
        PmossError: what the environment refuses; nothing was played then.
        DatasetError: what ``tuned`` or ``keep`` names is no such report.
    """
    asked = [Entrant.of(word) for word in agents]
    stored = StoredReport() if keep is None else StoredReport.of(keep, drifts, options)
    names = [name for name in GRIDS if name in stored.policies]
    names += [name for name in policies or GRIDS if name not in names]
    own = {entrant.name for entrant in asked}
    entrants = [*asked, *(one for one in stored.entrants if one.name not in own)]
    _check(drifts, names, entrants, options)
    kept = None if out is None else out.with_suffix(".partial")
    settings = asdict(options)
    # The code behind a word that names no file may be another one by now.
    anew = {one.key for one in asked if not one.digest}
    known = {game.name: row for game, row in stored.results.items() if game.policy not in anew}
    play = partial(
        finish_cells,
        partial(Games, options, asked),
        settings=settings,
        kept=kept,
        known=known,
        processes=processes,
    )
    told = dict(stored.choices)
    if tuned is not None:
        others = [name for name in names if name not in stored.policies]
        told |= choices_of(tuned, drifts, others)
    tuning = [
        Game(drift, name, choice, TUNING_SEED + number)
        for drift, name in product(drifts, names)
        for choice in range(len(GRIDS[name]))
        for number in range(options.tuning)
        if len(GRIDS[name]) > 1 and (drift, name) not in told
    ]
    total = len(tuning) + len(drifts) * (len(names) + len(entrants)) * options.episodes
    served = play(tuning, progress=lambda done, _: progress(done, total)) if tuning else {}
    chosen = told | {
        (drift, name): _best(drift, name, options.tuning, served)
        for drift, name in product(drifts, names)
        if (drift, name) not in told
    }
    players = [*names, *(entrant.key for entrant in entrants)]
    choice = chosen | {(drift, one.key): 0 for drift, one in product(drifts, entrants)}
    games = [
        Game(drift, name, choice[drift, name], seed)
        # Players innermost: those of one episode share its recording on the simulator.
        for seed in range(options.episodes)
        for drift, name in product(drifts, players)
    ]
    results = play(games, progress=lambda done, _: progress(len(tuning) + done, total))

    def of(drift: str, name: str, what: str) -> list[Any]:
        seeds = range(options.episodes)
        return [results[Game(drift, name, choice[drift, name], seed).name][what] for seed in seeds]

    found = []
    for drift in drifts:
        parameters = {name: GRIDS[name][chosen[drift, name]] for name in names}
        task = summary(drift, parameters, {name: of(drift, name, "outcome") for name in names})
        for one in entrants:
            played = of(drift, one.key, "outcome"), of(drift, one.key, "actions")
            task["agents"][one.name] = summary_of_agent(task, one, *played)
        found.append(task)
    if out is not None and kept is not None:
        _write(out, stored.commands, settings, found)
        kept.unlink(missing_ok=True)
    return found


def _write(
    out: Path, commands: Sequence[str], settings: Mapping[str, Any], tasks: Sequence[Any]
) -> None:
    """Writes the report; ``commands`` made the rows that it kept."""
    content: dict[str, Any] = {"kept_commands": commands} if commands else {}
    content |= {"format": FORMAT, "env_id": CONTINUAL.env_id, "settings": settings}
    write_report(out, [__name__], **content, tasks=tasks)


def _check(
    drifts: Sequence[str],
    names: Sequence[str],
    entrants: Sequence[Entrant],
    options: HeadroomOptions,
) -> None:
    """Refuses what allows no comparison."""
    taken = [*GRIDS, *(entrant.name for entrant in entrants)]
    if twice := sorted({name for name in taken if taken.count(name) > 1}):
        raise DescriptionError(f"agents {', '.join(twice)}: the name is taken: rename the file")
    for kind, wanted, all_names in (("drift", drifts, FAMILIES), ("policy", names, GRIDS)):
        for name in wanted:
            if name not in all_names:
                raise UnknownNameError(kind, name, all_names)
    if "law-oracle" not in names or not set(names) - set(ORACLES):
        raise DescriptionError(f"policies {names}: must hold law-oracle and an opponent")
    for drift in drifts:
        # Tuning has epochs of its own: what is wrong with the others is told before it.
        CONTINUAL.make_env(options.kwargs(Game(drift, names[0], 0, 0))).close()


def _best(drift: str, name: str, episodes: int, tuned: Mapping[str, Result]) -> int:
    """The choice that served most in the tuning episodes; the first of equals."""
    count = len(GRIDS[name])
    if count == 1:
        return 0
    served = [
        sum(
            tuned[Game(drift, name, choice, TUNING_SEED + number).name]["outcome"]
            for number in range(episodes)
        )
        for choice in range(count)
    ]
    return int(np.argmax(served))


def summary(
    drift: str, chosen: Mapping[str, Mapping[str, Any]], outcomes: Mapping[str, Sequence[float]]
) -> dict[str, Any]:
    """What a drift's games have come to, as plain JSON.

    Args:
        drift: the family.
        chosen: the tuned parameters of each policy.
        outcomes: million queries of each policy in each episode.

    Returns:
        ``policies`` with their means, their shares of the law oracle and paired differences to the
        best opponent. ``agents``: none yet. ``best``: that opponent. ``headroom``: what the law
        oracle serves beyond it, as a share, with its 95 % interval. ``standard``: whether that is
        THRESHOLD or more.
    """
    values = {name: np.array(found) for name, found in outcomes.items()}
    law = values["law-oracle"]
    opponents = [name for name in values if name not in ORACLES]
    best = max(opponents, key=lambda name: float(values[name].mean()))
    ahead = paired_difference((law / values[best] - 1.0)[None])
    policies = {}
    for name, served in values.items():
        share = paired_difference((served / law)[None])
        difference = paired_difference((served - values[best])[None])
        policies[name] = {
            "parameters": dict(chosen[name]),
            "outcomes": served.tolist(),
            "mean": float(served.mean()),
            "share_of_law": asdict(share),
            "beyond_best": asdict(difference),
        }
    return {
        "drift": drift,
        "best": best,
        "headroom": asdict(ahead),
        "standard": ahead.value >= THRESHOLD,
        "policies": policies,
        "agents": {},
    }


def summary_of_agent(
    task: Mapping[str, Any], entrant: Entrant, outcomes: Sequence[float], actions: Sequence[str]
) -> dict[str, Any]:
    """What an agent's games have come to, as plain JSON.

    Args:
        task: of summary().
        entrant: the agent.
        outcomes: million queries in each episode.
        actions: of each episode, with spaces between.

    Returns:
        As of a policy, and ``gap_closed``: what it gains on the best opponent, as a share of what
        the law oracle gains on it. Where the thorough law oracle has played,
        ``gap_closed_to_thorough`` is the share of what that one gains.
    """
    served = np.array(outcomes)
    rows = task["policies"]
    best = np.array(rows[task["best"]]["outcomes"])
    law = np.array(rows["law-oracle"]["outcomes"])
    thorough = {}
    if "thorough-law-oracle" in rows:
        bound = np.array(rows["thorough-law-oracle"]["outcomes"])
        closed = ratio_of_means(served - best, bound - best)
        thorough = {"gap_closed_to_thorough": asdict(closed)}
    return {
        "checkpoint_sha256": entrant.digest,
        "outcomes": list(outcomes),
        "mean": float(served.mean()),
        "share_of_law": asdict(paired_difference((served / law)[None])),
        "beyond_best": asdict(paired_difference((served - best)[None])),
        "gap_closed": asdict(ratio_of_means(served - best, law - best)),
        **thorough,
        "actions": list(actions),
    }
