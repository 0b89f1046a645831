"""`pmoss train | export`: from data, or play, to an agent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pmoss_datasets.cli.options import EnvOption
from pmoss_env.cli.console import console, progress_bar
from pmoss_env.cli.output import check_output
from pmoss_env.cli.pairs import pairs

if TYPE_CHECKING:
    from pmoss_agents import Agent
    from pmoss_datasets import Dataset


def train(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="[DATASET] OUT",
            help="Folder or id of the dataset, and checkpoint to write (.safetensors); OUT alone "
            "with --env.",
        ),
    ],
    agent: Annotated[
        str | None,
        typer.Option(
            help="A name from `pmoss agents`, or module:Class; decision-transformer if not given."
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

    Ctrl-C keeps the last checkpoint, --resume goes on. `pmoss datasets` lists datasets by id.

    Example: pmoss train runs/data runs/dt.safetensors --config decision-transformer-demo
    Example: pmoss train runs/data runs/cql.safetensors --agent cql --set updates=200
    Example: pmoss train runs/ppo.safetensors --agent maskable-ppo -e machine=toy -e slices=8
    """
    import pmoss_agents
    from pmoss_agents.checkpoints import SUFFIX
    from pmoss_agents.checkpoints import check_output as check_checkpoint
    from pmoss_datasets.catalog import load as load_dataset
    from pmoss_env.errors import DescriptionError

    if len(paths) != (1 if env else 2):
        raise DescriptionError(
            f"{len(paths)} paths: give DATASET OUT, or OUT alone with --env key=value of the "
            "environment to play in"
        )
    source = out = paths[-1]
    if resume:
        given = {"--config": config, "--set": changes, "--agent": agent and ":" not in agent}
        if refused := [option for option, value in given.items() if value]:
            raise DescriptionError(
                f"--resume with {', '.join(refused)}: a checkpoint goes on with its own agent and "
                "config; leave out one or the other"
            )
        # What an earlier version wrote goes on beside it, in a file of today's form.
        out = out.with_suffix(SUFFIX) if out.suffix == ".npz" else out
    check_checkpoint(out)
    check_output(out)
    kwargs = pairs(env)
    data = None if env else load_dataset(paths[0])
    if resume:
        learner = pmoss_agents.load(source, agent)
    else:
        learner = _new(agent, config, pairs(changes), kwargs, data)
    with progress_bar("training") as bar:

        def progress(done: int, total: int, metrics: Mapping[str, float]) -> None:
            bar(done, total)

        if isinstance(learner, pmoss_agents.OnlineAgent):
            if data is not None:
                raise DescriptionError(
                    f"{learner.name} learns by playing: give --env in place of a dataset"
                )
            metrics = learner.fit(kwargs, progress=progress, checkpoint=out)
        elif isinstance(learner, pmoss_agents.OfflineAgent):
            if data is None:
                raise DescriptionError(f"{learner.name} learns from data: give DATASET OUT")
            metrics = learner.fit(data, progress=progress, checkpoint=out)
        else:
            raise DescriptionError(f"{learner.name} learns nothing: it can be used as it is")
    learner.save(out)
    told = ", ".join(f"{name} {value:.4g}" for name, value in metrics.items())
    told = told or "all updates were made before"
    console.print(f"{learner.name}: {told}; saved to {out}")


def _new(
    agent: str | None,
    config: str | None,
    changes: dict[str, Any],
    kwargs: dict[str, Any],
    data: Dataset | None,
) -> Agent:
    """An agent of spatial scheduling, with the config that is its own for this task."""
    import pmoss_agents
    from pmoss_agents.configs import CONFIGS, read_config, task_name
    from pmoss_datasets import Recipe
    from pmoss_env.errors import UnknownNameError

    name = agent or (config and read_config(config).get("agent")) or "decision-transformer"
    # A path is imported, and what only a file names is not.
    if (agent is None or ":" not in name) and name not in (
        known := pmoss_agents.agent_names("spatial")
    ):
        raise UnknownNameError("agent", name, known)
    if config is None and (CONFIGS / f"{name}.toml").exists():
        config = name
    task = Recipe(env=kwargs).task if data is None else task_name(data.id)
    return pmoss_agents.make(name, config_file=config, task=task, **changes)


def export(
    checkpoint: Annotated[Path, typer.Argument(help="Checkpoint of a Decision Transformer.")],
    out: Annotated[
        Path, typer.Argument(help="Weights (.safetensors), or a TorchScript program (.pt).")
    ],
) -> None:
    """Write a trained policy: its weights to share, or a program in TorchScript.

    A .safetensors file holds weights and a description, and no code: evaluate and rollout take it
    like a checkpoint. A .pt file is for programs that have PyTorch and nothing of ours; its extra
    file pmoss.json says what goes in and what it was trained for. It is code, which runs when it
    is loaded: evaluate, rollout and explain take it only with --trust.

    Example: pmoss export runs/dt.safetensors runs/dt-weights.safetensors
    """
    import pmoss_agents
    from pmoss_agents.checkpoints import EXPORTED, SUFFIX
    from pmoss_env.errors import DescriptionError, UnsupportedError

    if out.suffix not in (EXPORTED, SUFFIX):
        raise DescriptionError(
            f"{out}: an exported policy's name must end in {SUFFIX}, or in {EXPORTED} for a program"
        )
    if out.exists() and out.samefile(checkpoint):
        raise DescriptionError(f"{out}: is the checkpoint itself, which could learn no more")
    if checkpoint.suffix == EXPORTED:
        raise DescriptionError(f"{checkpoint}: is an export already")
    check_output(out)
    agent = pmoss_agents.load(checkpoint)
    if agent.name != "decision-transformer":
        raise UnsupportedError(f"{checkpoint}: {agent.name}: only decision-transformer is exported")
    from pmoss_agents.spatial.decision_transformer import DecisionTransformer
    from pmoss_agents.spatial.export import export_policy, export_weights

    assert isinstance(agent, DecisionTransformer)
    (export_policy if out.suffix == EXPORTED else export_weights)(agent, out)
    console.print(f"{checkpoint} exported to {out}, {out.stat().st_size / 1e6:.1f} MB")
