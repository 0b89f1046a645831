"""`pmoss evaluate`: policies in the same episodes, and their results again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pmoss_agents.cli.policies import (
    DomainOption,
    PadOption,
    PoliciesArgument,
)
from pmoss_agents.cli.summaries import print_summaries
from pmoss_env.cli.console import AsJson, console, progress_bar, show_json
from pmoss_env.cli.output import check_absent, check_output, printable
from pmoss_env.cli.pairs import EnvOption, MachineOption, env_arguments
from pmoss_env.extras import require

if TYPE_CHECKING:
    from pmoss_agents.policies import Named
    from pmoss_datasets.domain import Domain
    from pmoss_env.result_files import ResultFile

#: Of seeds, episodes and evaluations; evaluate() has the same bound.
MOST = 1_000_000


def evaluate(
    policies: PoliciesArgument = None,
    domain: DomainOption = None,
    machine: MachineOption = None,
    env: EnvOption = None,
    seeds: Annotated[int, typer.Option(min=1, max=MOST, help="How many evaluation seeds.")] = 5,
    seed: Annotated[
        int, typer.Option(min=0, max=2**32, help="The first of them; the others follow it.")
    ] = 101,
    episodes: Annotated[int, typer.Option(min=1, max=MOST, help="Incumbents per seed.")] = 4,
    budget: Annotated[
        int, typer.Option(min=1, max=MOST, help="Evaluations of local search, also of score 100.")
    ] = 2000,
    schedules: Annotated[
        int, typer.Option(min=1, max=MOST, help="Random schedules of score 0, per episode.")
    ] = 100,
    pad: PadOption = False,
    out: Annotated[Path | None, typer.Option(help="Result file to write (.jsonl).")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace a file that is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare policies on incumbents that no dataset holds.

    Interrupted or killed, the same command with --out goes on: what rules and searches of the
    project have done waits in OUT.partial. Agents play again, for they may remember earlier
    episodes. So do policies of your own, whose code may have changed.

    Where no rule is named, eight rules and a search play, what Linux does by itself among them. Of
    another domain than spatial all play. os-default has a row with the kernel's automatic NUMA
    balancing on; on this host also one with it off, where that can be switched. This host has no
    scores, for nothing can be searched there.

    Example: pmoss evaluate pmoss/generalist-v1 -e interference=busy_core

    Example: pmoss evaluate runs/dt.safetensors -e interference=busy_core --out runs/r.jsonl

    Example: pmoss evaluate my_agent:Mine@runs/mine.safetensors lpt -e machine=toy -e slices=8

    Example: pmoss evaluate --domain access-path -e scans=32
    """
    from pmoss_agents.policies import named_policies
    from pmoss_datasets.evaluation import aggregate, mean_asked, write_results
    from pmoss_datasets.evaluation import evaluate as run
    from pmoss_datasets.evaluation.statistics import LEAST

    if seeds * episodes >= LEAST:
        require("scipy")  # for intervals, and not only when all was played
    kwargs = env_arguments(env, machine)
    if out:
        check_output(out)
        check_absent(out, overwrite)
    # Local search as an opponent gets what the search of score 100 gets.
    words = list(policies or ())
    named = named_policies(
        words, budget, pad=pad, domain=domain, usual=lambda domain: _usual(domain, kwargs)
    )
    balanced, without = named.domain.with_settings(named.policies, kwargs)
    named = named._replace(policies=balanced)
    settings = {"env": kwargs, "budget": budget, "schedules": schedules, "pad": pad}
    with _kept(out, named, words, settings) as kept, progress_bar("evaluating") as progress:
        evaluation = run(
            kwargs,
            named.policies,
            range(seed, seed + seeds),
            episodes_per_seed=episodes,
            search_budget=budget,
            random_schedules=schedules,
            progress=progress,
            env_id=named.domain.env_id,
            kept=kept,
        )
        if out:
            write_results(out, evaluation)
        kept.remove()
    title = f"{seeds} seeds x {episodes} incumbents"
    summaries = aggregate(evaluation.rows, trainings=False)
    asked = mean_asked(evaluation.rows)
    for name, count in evaluation.misplaced.items():
        typer.echo(
            f"in {count} of {seeds * episodes} episodes of {printable(name)} the kernel had not "
            "put all data where the schedule wants them: what was measured is of another placement",
            err=True,
        )
    if as_json:
        show_json(
            [
                asdict(summary)
                | {name: counts.get(summary.policy) for name, counts in asked.items()}
                for summary in summaries
            ]
        )
        return
    print_summaries(summaries, title, named.domain, asked=asked)
    if without:
        console.print(f"os-default has no rows with AutoNUMA off and on: {without}.")
    if out:
        console.print(f"written to {out}; replay it with: pmoss study replay {out}")


def _usual(domain: Domain, kwargs: Mapping[str, Any]) -> list[str]:
    """The policies to take where none are named; on this host none that search."""
    names = domain.compared or domain.policies()
    return [
        name for name in names if not (domain.takes_budget(name) and domain.measures_host(kwargs))
    ]


def _kept(
    out: Path | None, named: Named, words: Sequence[str | Path], settings: Mapping[str, Any]
) -> ResultFile:
    """The rows that an interrupted call left beside ``out``; in memory alone without it."""
    from pmoss_agents.policies import made_of
    from pmoss_datasets.evaluation import KEY
    from pmoss_env import __version__
    from pmoss_env.cli.signals import set_resume_hint
    from pmoss_env.result_files import ResultFile

    if out is None:
        set_resume_hint("without --out nothing is kept: start again")
        return ResultFile(None, {}, KEY)
    header = {
        "kind": "evaluation",
        "version": __version__,
        "domain": named.domain.name,
        **made_of(words),
        **settings,
    }
    return ResultFile(out.with_name(f"{out.name}.partial"), header, KEY)


def replay_files(paths: Sequence[Path], episodes: int | None, data: Path | None = None) -> bool:
    """Replays result files and prints what differs: every number must come out to the last bit.

    Args:
        paths: files of ``evaluate``, and checkpoints, which are trained again.
        episodes: of each file, with all their policies; None: all of them.
        data: folder of the datasets that checkpoints learned from; None: the default one.

    Returns:
        Whether all bits are equal.
    """
    from pmoss_agents.checkpoints import SUFFIX
    from pmoss_datasets.evaluation import replay

    failed = False
    for path in paths:
        if path.suffix == SUFFIX:
            failed |= _retrained(path, data)
            continue
        with progress_bar(f"replaying {path.name}") as progress:
            replayed = replay(path, progress, episodes=episodes)
        for line in replayed.mismatches:
            console.print(f"{path}: {line}", highlight=False)
        count = len(replayed.mismatches)
        failed |= count > 0
        verdict = f"{count} mismatches" if count else "all bits equal"
        console.print(f"{path}: {replayed.episodes} episodes replayed, {verdict}")
    return not failed


def _retrained(path: Path, data: Path | None) -> bool:
    """Makes the training of a checkpoint again; returns whether it differs."""
    from pmoss_agents.retraining import retrain

    again = retrain(path, data)
    console.print(f"{path}: {again.verdict}", highlight=False, soft_wrap=True)
    for line in again.mismatches:
        console.print(f"{path}: {line}", highlight=False, soft_wrap=True)
    return bool(again.mismatches)
