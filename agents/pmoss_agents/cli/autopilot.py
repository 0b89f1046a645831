"""`pmoss run autopilot`: an agent re-schedules the index that runs on this host."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pmoss_env.cli.console import console
from pmoss_env.cli.output import check_output, one_line, printable
from pmoss_env.cli.pairs import EnvOption, pairs

if TYPE_CHECKING:
    from rich.console import RenderableType

    from pmoss_agents.autopilot.loop import Outcome
    from pmoss_env.envs.continual import ContinualSchedulingEnv

#: Epochs that the live view lists.
_SHOWN = 8
GrowthOption = Annotated[
    float,
    typer.Option(
        min=0.0,
        help="Inserted records, as a share of RECORDS, above which the index is loaded anew "
        "between trials.",
    ),
]


def autopilot(
    agent: Annotated[
        str,
        typer.Argument(
            help="Who proposes moves: repair, kernel-like, tries or another policy of the domain "
            "continual; a checkpoint (.safetensors); or module:Class. Planners and forecasters "
            "need a machine with parameters, which this host has none of."
        ),
    ] = "repair",
    drift: Annotated[
        str, typer.Option(help="Co-tenants that come and go: none, busy-cores, jobs, memory, ...")
    ] = "none",
    index: Annotated[
        str | None,
        typer.Option(help="A kind of index, or plugin:LIBRARY of your own. Default: btree."),
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option(
            help="A name from `pmoss list workloads`. Default: the usual one of the index."
        ),
    ] = None,
    slices: Annotated[int, typer.Option(help="Key ranges.")] = 64,
    load: Annotated[
        str,
        typer.Option(
            help="closed, closed:<queries in flight per worker>, saturated, or open:<Mq/s>."
        ),
    ] = "closed",
    records: Annotated[int, typer.Option(help="Records in the index.")] = 1_000_000,
    max_growth: GrowthOption = 1.0,
    env: EnvOption = None,
    epochs: Annotated[int, typer.Option(min=1, help="After so many the loop ends.")] = 100_000,
    epoch_seconds: Annotated[
        float, typer.Option(min=0.04, help="Length of an epoch: most of it is there for a trial.")
    ] = 2.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random draws.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Every epoch with its snapshot (.jsonl); goes on with one that is there."
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="A report at the end, also after Ctrl-C (.html).")
    ] = None,
) -> None:
    """Serve an index on this host and let an agent re-schedule it while queries run.

    In every epoch the agent sees the last snapshot and proposes moves. A trial runs the old and the
    new schedule in turn, round by round, in as many epochs as it takes. A signed-rank test keeps
    the change or reverts it: a change that does nothing is kept in fewer than 1 of 100 trials. Data
    follow lazily.

    The loop ends after EPOCHS, or with Ctrl-C, SIGTERM or SIGHUP (status 130, 143 or 129). Then all
    threads end, and nothing of the host stays changed. An index that inserts have made too large is
    loaded anew. Where memory does not last for another epoch, the loop ends, too. An agent that
    raises moves nothing. A full disk does not stop the loop. A kill loses no epoch of OUT that has
    ended.

    Example: pmoss run autopilot --epochs 10
    Example: pmoss run autopilot --drift busy-cores --out runs/epochs.jsonl --html runs/page.html
    Example: pmoss run autopilot kernel-like --drift periodic-cores -e 'drift_options={"count":1}'
    Example: pmoss run autopilot --index plugin:./libmine.so --epochs 10
    Example: pmoss run autopilot my_agent:Mine --records 5000000 --load closed:256
    """
    from pmoss_env.cli.pairs import index_and_workload
    from pmoss_env.errors import DescriptionError
    from pmoss_env.indexes import DEFAULT

    given = pairs(env)
    _check_files(out, html)
    for name in ("drift", "index", "workload", "slices", "load", "epochs", "epoch_seconds"):
        if name in given:
            raise DescriptionError(f"-e {name}={given[name]}: give --{name.replace('_', '-')}")
    policy = _policy(agent)
    index, workload = index_and_workload(index, workload)
    options = given.pop("backend_options", {})
    if not isinstance(options, Mapping):
        raise DescriptionError(f"-e backend_options={options!r}: must be a JSON object")
    for name in ("records", "max_growth"):
        if name in options:
            raise DescriptionError(f"-e backend_options: {name}: give --{name.replace('_', '-')}")
    settings: dict[str, Any] = {
        "drift": drift,
        # The default is not named, so that files without it go on.
        **({} if index == DEFAULT else {"index": index}),
        "workload": workload,
        "slices": slices,
        "load": load,
        "epochs": epochs,
        "epoch_seconds": epoch_seconds,
        "backend_options": {"records": records, "max_growth": max_growth, **options},
        **given,
    }
    _run(agent, policy, settings, seed, out, html)


def _check_files(out: Path | None, html: Path | None) -> None:
    """Refuses files that cannot be written, or that are no two files."""
    from pmoss_env.errors import DescriptionError

    for path in (out, html):
        if path:
            check_output(path, suffix=".html" if path is html else "")
    if out and html and out.resolve() == html.resolve():
        raise DescriptionError(f"--out and --html: both are {out}; give each a file of its own")


def _policy(agent: str) -> Any:
    """The policy of a name: policies of the domain go first, for names of agents may be any."""
    from pmoss_agents.policies import named_policies
    from pmoss_datasets.continual.domain import CONTINUAL

    if agent in CONTINUAL.policies():
        return CONTINUAL.policy(agent)
    (policy,) = named_policies([agent], domain=CONTINUAL.name).policies.values()
    return policy


def _run(
    agent: str,
    policy: Any,
    settings: dict[str, Any],
    seed: int,
    out: Path | None,
    html: Path | None,
) -> None:
    """Runs the loop, shows it, and says at the end what came of it."""
    from pmoss_agents.autopilot.loop import EpochFile, fly, running_env
    from pmoss_agents.autopilot.page import in_words
    from pmoss_agents.autopilot.trials import TriedIndex
    from pmoss_env.backends.data_facts import misplaced_lines, placement_lines
    from pmoss_env.cli.signals import set_resume_hint
    from pmoss_env.measuring import what_runs

    env = running_env(settings, seed)
    # How long it goes on decides no epoch.
    kept = {name: value for name, value in settings.items() if name != "epochs"}
    runs = what_runs(settings.get("index", ""), on_host=True)
    file = EpochFile(out, {**kept, "agent": agent, **runs})
    set_resume_hint(
        "all threads have ended; --out holds every epoch, and goes on as another session"
    )
    outcomes: deque[Outcome] = deque(maxlen=100_000)
    view = _View(env)
    try:
        with view:
            for outcome in fly(env, policy, seed):
                file.append(outcome)
                outcomes.append(outcome)
                view.show(outcome, file.trouble)
    finally:
        file.close()
        lost = f"{file.lost} epochs were not written." if file.lost else ""
        try:
            if html and outcomes:
                _write_report(html, outcomes, agent, env, lost)
        except OSError as error:
            # A disk without room for the report still leaves what came of the run.
            console.print(f"{in_words(outcomes)} {lost}".rstrip())
            whole = len(outcomes) - file.lost if out else 0
            epochs = f"; {out} has {whole} of its epochs" if whole else ""
            raise OSError(
                error.errno,
                f"{error.strerror}: no report was written{epochs}. Make room, or name a file "
                "on another disk, and run again",
                str(html),
            ) from error
    console.print(f"{in_words(outcomes)} {lost}".rstrip())
    assert isinstance(env.session.live, TriedIndex)
    if env.session.live.ended:
        console.print(f"Ended early: {env.session.live.ended}.")
    provenance = {"data": env.session.live.data}
    for line in (*placement_lines(provenance), *misplaced_lines(provenance, "the last schedule")):
        console.print(line)
    if file.lost:
        raise typer.Exit(1)


def _write_report(
    path: Path, outcomes: Sequence[Outcome], agent: str, env: ContinualSchedulingEnv, lost: str
) -> None:
    from pmoss_agents.autopilot.page import report_page
    from pmoss_env.files import write_atomically

    workload = env.session.backend.workload.name
    task = f"{workload}, {env.slices} slices, drift {env.arguments.drift}."
    title = f"{agent} on {env.machine.description}"
    write_atomically(path, report_page(outcomes, title, [task, *filter(None, [lost])]))


class _View:
    """The live view of a terminal; elsewhere a line per epoch."""

    def __init__(self, env: ContinualSchedulingEnv) -> None:
        self._env = env
        self._lines: deque[str] = deque(maxlen=_SHOWN)
        self._belief = ""
        self._live: Any = nullcontext()
        if console.is_terminal:
            from rich.live import Live

            self._live = Live(
                console=console, get_renderable=self._renderable, refresh_per_second=4
            )

    def __enter__(self) -> None:
        if not console.is_terminal:
            console.print("loading the index, and serving")
        self._live.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._live.__exit__(*error)

    def show(self, outcome: Outcome, trouble: str) -> None:
        """Takes an epoch, and shows it in one line; what an agent said may be longer."""
        from pmoss_agents.autopilot.page import belief_in_words, trial_in_words

        parts = [
            f"epoch {outcome.epoch}  {outcome.throughput:.3f} Mq/s  {outcome.verdict}",
            trial_in_words(outcome),
            f"{outcome.pending} slices under way" if outcome.pending else "",
            one_line(outcome.trouble),
            one_line(trouble),
        ]
        lines = ["  ".join(filter(None, parts))]
        if outcome.reloaded:
            lines.append(f"  {one_line(outcome.reloaded)}")
        self._lines.extend(lines)
        self._belief = belief_in_words(outcome, self._env.machine.workers.tolist())
        if not console.is_terminal:
            for line in lines:
                console.print(line)

    def _renderable(self) -> RenderableType:
        from rich.text import Text

        from pmoss_env.envs.continual.viewer import as_text

        if not self._lines:
            return Text("loading the index, and serving")
        shown = [as_text(self._env.session), self._belief, *map(printable, self._lines)]
        # A line of the terminal each, for the view must not grow beyond its height.
        return Text("\n".join(shown), no_wrap=True, overflow="ellipsis")
