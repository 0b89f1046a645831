"""`pmoss train | export`: from data, or play, to an agent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from pmoss_env.cli.console import console, progress_bar
from pmoss_env.cli.options import EnvOption
from pmoss_env.cli.output import check_output
from pmoss_env.cli.pairs import pairs


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
    from pmoss_agents.spatial.decision_transformer import DecisionTransformer
    from pmoss_agents.spatial.export import export_policy

    assert isinstance(agent, DecisionTransformer)
    export_policy(agent, out)
    console.print(f"{checkpoint} exported to {out}, {out.stat().st_size / 1e6:.1f} MB")
