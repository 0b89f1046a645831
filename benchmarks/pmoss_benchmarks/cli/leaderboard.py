"""The leaderboard: rounds on instances that are secret until a release."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pmoss_env.cli.console import AsJson, Stages, console, show_json, table

if TYPE_CHECKING:
    from pmoss_benchmarks.leaderboard.rounds import Round

BoardOption = Annotated[
    Path | None,
    typer.Option(
        help="Folder of the rounds. Default: benchmarks/results/leaderboard of the checkout "
        "around the current folder."
    ),
]
RoundOption = Annotated[
    str | None,
    typer.Option("--round", help="Name; default: the newest, to play or show that is revealed."),
]
TierOption = Annotated[
    list[str] | None,
    typer.Option("--tier", help="analytic or simulated; repeatable. Default: both."),
]
SecretOption = Annotated[Path, typer.Option("--secret", help="File of the secret.")]
RoundArgument = Annotated[str, typer.Argument(metavar="ROUND", help="Name of the round.")]


def _board(folder: Path | None) -> Path:
    from pmoss_benchmarks.study.store import find_root

    if folder is not None:
        return folder
    return find_root(Path.cwd().resolve(), "--board") / "benchmarks" / "results" / "leaderboard"


def _round(board: Path, name: str | None, *, revealed: bool = False) -> Round:
    """The round of a name; without one newest_round()."""
    from pmoss_benchmarks.leaderboard.rounds import newest_round, read_round

    return read_round(board, name) if name else newest_round(board, revealed=revealed)


def round_(
    name: RoundArgument,
    secret: SecretOption,
    reveal: Annotated[
        bool, typer.Option("--reveal", help="End the round: publish its secret.")
    ] = False,
    board: BoardOption = None,
) -> None:
    """Begin a round of the leaderboard, or reveal it.

    To begin it, the command draws a secret, writes it to a file, and publishes its digest alone.
    Keep that file to yourself. With --reveal the secret is published, and everybody knows the
    round's instances.

    Example: pmoss dev round 2027-01 --secret ~/2027-01.secret

    Example: pmoss dev round 2027-01 --secret ~/2027-01.secret --reveal
    """
    from pmoss_benchmarks.leaderboard import rounds

    if reveal:
        ended = rounds.reveal(_board(board), name, secret)
        count = len(ended.entries)
        console.print(f"round {name}: revealed, with {count} entries registered before")
        return
    begun = rounds.commit(_board(board), name, secret)
    console.print(f"round {name}: digest {begun.digest}; publish its file, keep {secret}")


def play(
    agents: Annotated[
        list[str] | None,
        typer.Argument(metavar="[AGENT]...", help="As of `pmoss evaluate`; they are not isolated."),
    ] = None,
    round_name: RoundOption = None,
    tier: TierOption = None,
    board: BoardOption = None,
) -> None:
    """Play the project's rules, searches and agents on the leaderboard, where rows are missing.

    Example: pmoss dev play --tier analytic
    """
    from pmoss_agents.policies import short_name
    from pmoss_benchmarks.leaderboard.board import play_house

    folder = _board(board)
    round_ = _round(folder, round_name, revealed=True)
    with Stages() as progress:
        paths = play_house(
            folder,
            round_,
            tiers=tuple(tier or ()),
            agents={short_name(word): word for word in agents or ()},
            progress=progress,
        )
    for path in paths:
        console.print(f"{path}", highlight=False, soft_wrap=True)


def leaderboard(
    round_name: RoundOption = None,
    tier: TierOption = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Prove every row of all rounds, or of ROUND and TIER: its seeds come from the "
            "revealed secret, and it replays to the last bit.",
        ),
    ] = False,
    episodes: Annotated[
        int | None, typer.Option(min=1, help="With --check: replay so many episodes of each file.")
    ] = None,
    board: BoardOption = None,
    as_json: AsJson = False,
) -> None:
    """Show who stands where in a round, or prove the rows. Kinds and times are claims.

    Files of rows that are wrong are named and left out.

    Example: pmoss study leaderboard --tier analytic

    Example: pmoss study leaderboard --check --episodes 1
    """
    from pmoss_benchmarks.leaderboard.board import check_board, standings
    from pmoss_benchmarks.leaderboard.rounds import rounds_of
    from pmoss_env.checks import check_name

    folder = _board(board)
    if episodes is not None and not check:
        raise typer.BadParameter("applies to --check", param_hint="--episodes")
    if check:
        rounds = [_round(folder, round_name)] if round_name else rounds_of(folder)
        for name in tier or ():
            check_name("tier", name, {one.name for each in rounds for one in each.tiers})
        with Stages() as progress:
            problems = [
                problem
                for name in tier or [""]
                for problem in check_board(
                    folder, rounds=rounds, tier=name, episodes=episodes, progress=progress
                )
            ]
        for text in problems:
            console.print(text, highlight=False, soft_wrap=True)
        console.print(f"{len(rounds)} rounds, {len(problems)} problems")
        if problems:
            raise typer.Exit(1)
        return
    round_ = _round(folder, round_name, revealed=True)
    ranked: dict[str, list[Any]] = {}
    problems = []
    for name in tier or [one.name for one in round_.tiers]:
        of_tier = round_.tier(name)
        ranked[name], wrong = standings(folder, round_, of_tier)
        problems += wrong
        rows = [
            [
                one.name,
                one.kind,
                *(f"{one.scores[t].value:.1f}" if t in one.scores else "" for t in of_tier.tasks),
                "" if one.mean is None else f"{one.mean:.1f}",
            ]
            for one in ranked[name]
        ]
        columns = ["name", "claimed kind", *(f">{task}" for task in of_tier.tasks), ">mean"]
        if not as_json:
            console.print(table(f"round {round_.name}, tier {name}: scores", columns, rows))
    if as_json:
        show_json({name: [asdict(one) for one in of_tier] for name, of_tier in ranked.items()})
    for text in problems:
        typer.echo(f"left out: {text}", err=True)
    if problems:
        raise typer.Exit(1)


def submit(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder with an agent and submission.toml.")
    ],
    round_name: RoundOption = None,
    tier: TierOption = None,
    board: BoardOption = None,
    practice: Annotated[
        bool,
        typer.Option("--practice", help="Play one known episode of each task and write nothing."),
    ] = False,
    seconds: Annotated[
        float, typer.Option(min=0.1, help="Most seconds of all answers of an episode.")
    ] = 60.0,
    memory: Annotated[
        int, typer.Option(min=1, help="Most GiB of address space of the policy's process.")
    ] = 16,
) -> None:
    """Check a folder with an agent, play it in a process of its own, and write its rows.

    A checkpoint of a known agent is data, and nothing of it is executed. A module that
    submission.toml names is executed: look at it first where it is not yours. Where the kernel has
    Landlock and seccomp, it may read Python, the packages and DIR, and no more; elsewhere it has
    your rights. The command says which.

    A round that is not revealed yet plays one known episode of each task, and notes the folder's
    digest. The rows follow when the round is revealed.

    Example: pmoss study submit my-agent --practice

    Example: pmoss study submit my-agent --tier analytic
    """
    from pmoss_benchmarks.leaderboard import submitting
    from pmoss_benchmarks.leaderboard.confinement import can_confine
    from pmoss_benchmarks.leaderboard.players import Limits
    from pmoss_benchmarks.leaderboard.submissions import read_submission

    submission = read_submission(folder)
    at = _board(board)
    round_ = _round(at, round_name)
    limits = Limits(episode_seconds=seconds, memory_bytes=memory << 30)
    how = "confined by the kernel" if can_confine() else "with your rights: not confined here"
    for path in submission.executed:
        typer.echo(f"executes {path}, in a process of its own, {how}", err=True)
    with Stages() as progress:
        if practice:
            for name in tier or [round_.tiers[0].name]:
                for one in submitting.practise(submission, round_, name, limits, progress):
                    for row in one.rows:
                        score = "none" if row.score is None else f"{row.score:.1f}"
                        where = f"{one.env_kwargs['machine']}, {one.env_kwargs['workload']}"
                        text = f"{where}: {row.throughput:.2f} Mq/s, score {score}"
                        console.print(text, highlight=False)
            return
        paths = submitting.submit(
            submission, at, round_, tiers=tuple(tier or ()), limits=limits, progress=progress
        )
    for path in paths:
        console.print(f"{path}", highlight=False, soft_wrap=True)
    if not paths:
        console.print(
            f"round {round_.name} is not revealed yet: registered as {submission.digest}; submit "
            "the same folder again when it is",
            highlight=False,
            soft_wrap=True,
        )
