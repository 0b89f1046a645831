"""`pmoss demo | train | evaluate | validate`: from data to a schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from pmoss_env.cli.console import Stages, console, progress_bar, table
from pmoss_env.cli.output import check_output
from pmoss_env.cli.pairs import pairs
from pmoss_env.cli.policies import PadOption, named_policies

if TYPE_CHECKING:
    from pmoss_env.evaluation import Summary

EnvOption = Annotated[
    list[str] | None,
    typer.Option("--env", "-e", help="key=value of the environment; repeatable, value as JSON."),
]


def demo(
    out: Annotated[Path, typer.Option(help="Folder for all that is written.")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(help="Of dataset, training and schedules.")] = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help="A toy machine and a few seconds: is all installed?")
    ] = False,
) -> None:
    """The whole idea in minutes: measure this host, collect, train, place, compare.

    Example: pmoss demo --out runs/demo
    """
    from pmoss_benchmarks.demo import AGENT, FULL, QUICK, run_demo

    plan = QUICK if quick else FULL
    with Stages() as progress:
        result = run_demo(plan, out, seed=seed, progress=progress)

    rows = []
    for name, found in result.host.items():
        low, high = min(found.throughputs), max(found.throughputs)
        median = sorted(found.throughputs)[len(found.throughputs) // 2]
        p99 = f"{found.snapshot.latency_p99_us:.0f}"
        rows.append((name, f"{median:.2f}", f"{low:.2f} .. {high:.2f}", p99))
    host = result.host["lpt"].snapshot.provenance["host"]["cpu_model"]
    title = f"This host ({host}): a real B+-tree, {plan.host_records:,} records, YCSB-A, closed"
    console.print(table(title, ["schedule", ">Mq/s", "range", ">p99 us"], rows))

    task = plan.env_kwargs
    _print_summaries(
        result.summaries,
        f"{task['machine']}, {task['workload']}, {task['load']} load, {task['interference']}: "
        f"{len(plan.seeds)} seeds x {plan.episodes_per_seed} unseen incumbents",
        emphasised=AGENT,
    )
    console.print(
        f"Score 0: random schedules; 100: local search with {plan.search_budget} evaluations. "
        f"Mean of the training data: {result.dataset_mean:.1f} Mq/s. Agents trained: "
        f"{plan.training_seeds}, one per seed."
    )
    times = ", ".join(f"{stage} {seconds:.0f} s" for stage, seconds in result.seconds.items())
    console.print(f"Time: {times}.")
    console.print(f"Picture: {out / 'demo.png'}   results: {out / 'results.jsonl'}")


def train(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="[DATASET] OUT",
            help="Folder of the dataset, and checkpoint to write (.npz); OUT alone with --env.",
        ),
    ],
    agent: Annotated[
        str | None,
        typer.Option(
            help="decision-transformer (default); bc, percentile-bc, cql, bcq or iql, which learn "
            "through the extra d3rlpy; maskable-ppo or dqn, which play (extra online)."
        ),
    ] = None,
    env: EnvOption = None,
    config: Annotated[
        str | None,
        typer.Option(
            help="A committed config's name, or a TOML file; the agent's own if it has one."
        ),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", help="field=value of the config; repeatable, value as JSON."),
    ] = None,
    resume: Annotated[
        bool, typer.Option(help="Go on from the checkpoint at OUT, with its agent and config.")
    ] = False,
) -> None:
    """Train an agent on a dataset, or online in the environment that --env describes.

    Ctrl-C keeps the last checkpoint, --resume goes on.

    Example: pmoss train runs/data runs/dt.npz --config decision-transformer-demo --set updates=200
    Example: pmoss train runs/ppo.npz --agent maskable-ppo -e machine=toy -e slices=8
    """
    import pmoss_agents
    from pmoss_agents.base import CONFIGS, EXPORTED, OnlineAgent, read_config, task_name
    from pmoss_datasets import Recipe, open_dataset
    from pmoss_env.errors import DescriptionError, UnknownNameError

    if len(paths) != (1 if env else 2):
        raise DescriptionError(
            f"{len(paths)} paths: give DATASET OUT, or OUT alone with --env key=value of the "
            "environment to play in"
        )
    out = paths[-1]

    given = {"--agent": agent, "--config": config, "--set": changes}
    if resume and (refused := [option for option, value in given.items() if value]):
        raise DescriptionError(
            f"--resume with {', '.join(refused)}: a checkpoint goes on with its own agent and "
            "config; leave out one or the other"
        )
    if out.suffix == EXPORTED:
        raise DescriptionError(f"{out}: exports end so, and cannot learn: give a checkpoint (.npz)")
    check_output(out)
    kwargs = pairs(env)
    data = None if env else open_dataset(paths[0])
    if resume:
        learner = pmoss_agents.load(out)
    else:
        name = agent or (config and read_config(config).get("agent")) or "decision-transformer"
        if name not in pmoss_agents.agent_names("spatial"):
            raise UnknownNameError("agent", name, pmoss_agents.agent_names("spatial"))
        if config is None and (CONFIGS / f"{name}.toml").exists():
            config = name
        task = Recipe(env=kwargs).task if data is None else task_name(data.metadata.id)
        learner = pmoss_agents.make(name, config_file=config, task=task, **pairs(changes))
    with progress_bar("training") as bar:

        def progress(done: int, total: int, metrics: Mapping[str, float]) -> None:
            bar(done, total)

        if isinstance(learner, OnlineAgent):
            if data is not None:
                raise DescriptionError(
                    f"{learner.name} learns by playing: give --env in place of a dataset"
                )
            metrics = learner.fit(kwargs, progress=progress, checkpoint=out)
        elif data is None:
            raise DescriptionError(f"{learner.name} learns from data: give DATASET OUT")
        else:
            metrics = learner.fit(data, progress=progress, checkpoint=out)
    learner.save(out)
    told = ", ".join(f"{name} {value:.4g}" for name, value in metrics.items())
    console.print(f"{learner.name}: {told}; saved to {out}")


def export(
    checkpoint: Annotated[Path, typer.Argument(help="Checkpoint of a Decision Transformer.")],
    out: Annotated[Path, typer.Argument(help="TorchScript file to write (.pt).")],
) -> None:
    """Write a trained policy as TorchScript, for programs that have PyTorch and nothing of ours.

    The file says in its extra file pmoss.json what goes in and what it was trained for; evaluate
    and rollout take it like a checkpoint.

    Example: pmoss export runs/dt.npz runs/dt.pt
    """
    import pmoss_agents
    from pmoss_agents.base import EXPORTED
    from pmoss_env.errors import DescriptionError, UnsupportedError

    if out.suffix != EXPORTED:
        raise DescriptionError(f"{out}: an exported policy's name must end in {EXPORTED}")
    if checkpoint.suffix == EXPORTED:
        raise DescriptionError(f"{checkpoint}: is an export already")
    check_output(out)
    agent = pmoss_agents.load(checkpoint)
    if agent.name != "decision-transformer":
        raise UnsupportedError(f"{checkpoint}: {agent.name}: only decision-transformer is exported")
    from pmoss_agents.decision_transformer import DecisionTransformer
    from pmoss_agents.export import export_policy

    assert isinstance(agent, DecisionTransformer)
    export_policy(agent, out)
    console.print(f"{checkpoint} exported to {out}, {out.stat().st_size / 1e6:.1f} MB")


def evaluate(
    checkpoint: Annotated[
        list[Path] | None, typer.Argument(help="Checkpoints of agents to compare.")
    ] = None,
    baseline: Annotated[
        list[str], typer.Option("--baseline", "-b", help="Baselines beside them; repeatable.")
    ] = ["random", "grouped", "spread", "mixed", "lpt", "lpt-capacity", "local-search"],  # noqa: B006
    env: EnvOption = None,
    seeds: Annotated[int, typer.Option(help="Evaluation seeds, from 101 on.")] = 5,
    episodes: Annotated[int, typer.Option(help="Incumbents per seed.")] = 4,
    budget: Annotated[
        int, typer.Option(help="Evaluations of local search, also of score 100.")
    ] = 2000,
    schedules: Annotated[int, typer.Option(help="Random schedules of score 0, per episode.")] = 100,
    pad: PadOption = False,
    out: Annotated[Path | None, typer.Option(help="Result file to write (.jsonl).")] = None,
) -> None:
    """Compare agents and baselines on incumbents that no dataset holds.

    Example: pmoss evaluate runs/dt.npz -e interference=busy_core -e order=load --out runs/r.jsonl
    """
    from pmoss_env.evaluation import aggregate, write_results
    from pmoss_env.evaluation import evaluate as run

    kwargs = pairs(env)
    if out:
        check_output(out)
    # Local search as an opponent gets what the search of score 100 gets.
    policies = named_policies(baseline, checkpoint, budget, pad=pad)
    with progress_bar("evaluating") as progress:
        evaluation = run(
            kwargs,
            policies,
            range(101, 101 + seeds),
            episodes_per_seed=episodes,
            search_budget=budget,
            random_schedules=schedules,
            progress=progress,
        )
    _print_summaries(aggregate(evaluation.rows), f"{seeds} seeds x {episodes} incumbents")
    if out:
        write_results(out, evaluation)
        console.print(f"written to {out}; replay it with: pmoss validate {out}")


def validate(
    results: Annotated[list[Path], typer.Argument(help="Result files (.jsonl).")],
    episodes: Annotated[
        int | None,
        typer.Option(help="Replay only so many episodes of each file, with all their policies."),
    ] = None,
) -> None:
    """Replay result files: every throughput and score must come out again, to the last bit.

    Example: pmoss validate runs/demo/results.jsonl
    """
    from pmoss_env.evaluation import replay

    failed = False
    for path in results:
        with progress_bar(f"replaying {path.name}") as progress:
            found = replay(path, progress, episodes=episodes)
        for line in found.mismatches:
            console.print(f"{path}: {line}", highlight=False)
        failed |= bool(found.mismatches)
        verdict = f"{len(found.mismatches)} mismatches" if found.mismatches else "all bits equal"
        console.print(f"{path}: {found.episodes} episodes replayed, {verdict}")
    if failed:
        raise typer.Exit(1)


def _print_summaries(summaries: Sequence[Summary], title: str, emphasised: str = "") -> None:
    def with_interval(mean: float | None, low: float | None, high: float | None) -> str:
        if mean is None:
            return ""
        return f"{mean:.1f}" if low is None else f"{mean:.1f} [{low:.1f}, {high:.1f}]"

    rows = []
    for s in sorted(summaries, key=lambda s: s.throughput):
        cells = (
            s.policy,
            with_interval(s.throughput, s.throughput_low, s.throughput_high),
            with_interval(s.score, s.score_low, s.score_high),
            f"{1e3 * s.seconds_per_decision:.2f}",
        )
        rows.append([Text(str(cell), "bold" * (s.policy == emphasised)) for cell in cells])
    columns = ["schedule", ">Mq/s [95 %]", ">score [95 %]", ">ms"]
    console.print(table(title, columns, rows))
    illegal = sum(s.illegal_actions for s in summaries)
    console.print(f"ms: per decision. Illegal actions: {illegal}.")
