"""`pmoss train`: from data, or play, to an agent."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pmoss_env.cli.console import console, progress_bar
from pmoss_env.cli.output import check_absent, check_output
from pmoss_env.cli.pairs import EnvOption, MachineOption, SetOption, env_arguments, pairs

if TYPE_CHECKING:
    from pmoss_agents import Agent
    from pmoss_agents.learning import Lesson
    from pmoss_agents.trainer import Progress
    from pmoss_agents.validating import Validation

Paths = Annotated[
    list[Path],
    typer.Argument(
        metavar="[POLICY] [DATASET...] OUT",
        help="A name from `pmoss list agents` or module:Class of your own, else the domain's "
        "usual one; folders or ids of the data; checkpoint to write (.safetensors). Without "
        "data it learns by playing. surrogate, generalist, pair-policy, decision-transformer and "
        "qt learn from several datasets, of several machines, too.",
    ),
]
StartOption = Annotated[
    str | None,
    typer.Option(
        help="Begin with the weights of a trained agent: a checkpoint, or a name that ships. "
        "Its config stays but for --set. surrogate, generalist, decision-transformer, qt and "
        "forecaster can."
    ),
]
ConfigOption = Annotated[
    str | None,
    typer.Option(help="A committed config's name, or a TOML file; the agent's own if it has one."),
]
DomainOption = Annotated[
    str | None,
    typer.Option(help="Which environment to play in: spatial, threads, ... The agent's own."),
]
OtherCodeOption = Annotated[
    bool, typer.Option("--other-code", help="Let --resume go on with what other code has trained.")
]
LogOption = Annotated[
    Path | None,
    typer.Option(
        help="File that keeps metrics and CPU seconds of every update, as JSON lines; --resume "
        "goes on with it."
    ),
]
TensorBoardOption = Annotated[
    Path | None,
    typer.Option(help="Folder of TensorBoard: the curves of this training go to a folder in it."),
]
WandbOption = Annotated[
    str | None, typer.Option(help="Project of Weights & Biases that gets the curves.")
]
TrialsOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Train so many times with settings from the agent's range, which Optuna chooses; OUT "
        "gets the best agent on validation episodes. The same command goes on.",
    ),
]
EveryOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Updates between two scores on validation episodes, which no data and no evaluation "
        "have. They are kept and drawn beside OUT, and so is the best agent.",
    ),
]
EpisodesOption = Annotated[
    int, typer.Option(min=1, max=10_000, help="Of each task, for --validate-every.")
]


def train(
    paths: Paths,
    domain: DomainOption = None,
    machine: MachineOption = None,
    env: EnvOption = None,
    config: ConfigOption = None,
    changes: SetOption = None,
    resume: Annotated[
        bool, typer.Option(help="Go on from the checkpoint at OUT, with its agent and config.")
    ] = False,
    other_code: OtherCodeOption = False,
    start: StartOption = None,
    overwrite: Annotated[
        bool, typer.Option(help="Replace a checkpoint and a log that are there.")
    ] = False,
    log: LogOption = None,
    tensorboard: TensorBoardOption = None,
    wandb: WandbOption = None,
    trials: TrialsOption = None,
    validate_every: EveryOption = None,
    validate_episodes: EpisodesOption = 4,
) -> None:
    """Train an agent on data, or by playing in an environment; of any domain.

    The domain follows from the data or from the agent. With OUT alone the agent plays in the
    environment that --env describes. Ctrl-C keeps the last checkpoint, --resume goes on.
    `pmoss list agents` lists agents, `pmoss list datasets` data.

    Example: pmoss train runs/data runs/dt.safetensors --config decision-transformer-demo
    Example: pmoss train runs/data runs/tuned.safetensors --start pmoss/surrogate-busy-core-v0
    Example: pmoss train maskable-ppo runs/ppo.safetensors -e machine=toy -e slices=8
    Example: pmoss train my_agent:Mine runs/data runs/mine.safetensors
    Example: pmoss train cql runs/data runs/cql.safetensors --validate-every 100
    Example: pmoss train cql runs/data runs/cql.safetensors --tensorboard runs/curves
    Example: pmoss train cql runs/data runs/cql.safetensors --trials 20 --validate-every 100
    """
    from pmoss_agents.learning import find_lesson, new_agent
    from pmoss_env.errors import DescriptionError

    agent, paths = _agent_and_paths(paths)
    if env and len(paths) > 1:
        raise DescriptionError(
            f"{len(paths)} paths: give DATASET OUT, or OUT alone with --env key=value of the "
            "environment to play in"
        )
    if start is not None:
        _refuse("--start", {"--resume": resume, "--config": config, f"agent {agent}": agent})
    out = paths[-1]
    given = pairs(changes)
    if resume:
        fixed = set(given) - {"device"}
        named = agent and ":" not in agent
        given_twice = {"--config": config, "--set": fixed, f"agent {agent}": named}
        _refuse("--resume", given_twice, "a checkpoint goes on with its own agent and config; ")
    _check_checkpoint(out, resume or _has_trials(out, trials), overwrite)
    learner = _resumed(out, agent, given) if resume else _renewed(start, given)
    domain = (learner.domain or None) if learner else domain
    arguments = env_arguments(env, machine)
    if agent is None and len(paths) > 1:
        _check_data(paths[0])
    lesson = find_lesson(paths[:-1] or None, arguments, domain=domain, agent=agent, config=config)
    if trials is not None:
        alone = {"--resume": resume, "--start": start, "--log": log}
        alone |= {"--tensorboard": tensorboard, "--wandb": wandb}
        _refuse("--trials", alone)
        if agent is None or validate_every is None:
            raise DescriptionError("--trials: name the agent, and give --validate-every")
        _tune(agent, lesson, out, trials, validate_every, validate_episodes, config, given)
        return
    if learner is None:
        learner = new_agent(lesson, agent, config, given)
    if log is not None and not resume:
        check_absent(log, overwrite, ", --resume goes on with it where there is a checkpoint")
    validation = None
    if validate_every is not None:
        from pmoss_agents.validating import Validation, Worlds, rows_path

        check_absent(rows_path(out), overwrite or resume)
        worlds = Worlds.of(lesson, validate_episodes)
        validation = Validation(learner, worlds, out, validate_every)
    with _trackers(learner, out, tensorboard, wandb, overwrite, resume) as trackers:
        metrics = _learned(learner, lesson, out, log, resume, other_code, validation, trackers)
    figures = ", ".join(f"{name} {value:.4g}" for name, value in metrics.items())
    console.print(f"{learner.name}: {figures or 'all updates were made before'}; saved to {out}")
    if validation is not None and validation.best.exists():
        console.print(f"best on validation episodes: {validation.best}, {validation.draw()}")


def _tune(
    agent: str,
    lesson: Lesson,
    out: Path,
    trials: int,
    every: int,
    episodes: int,
    config: str | None,
    changes: Mapping[str, Any],
) -> None:
    """Trains several times, says what each trial scored, and keeps the best agent."""
    from pmoss_agents.configs import read_range
    from pmoss_agents.tuning import trials_path, tune
    from pmoss_agents.validating import Worlds
    from pmoss_env.extras import require

    read_range(agent)
    require("optuna")  # better known before the references of episodes are searched

    def say(done: int, total: int, score: float | None, settings: Mapping[str, Any]) -> None:
        words = ", ".join(f"{name} {value}" for name, value in settings.items())
        result = "ended early" if score is None else f"score {score:.1f}"
        console.print(f"trial {done} of {total}: {result}: {words}", highlight=False)

    best = tune(
        agent,
        lesson,
        out,
        trials,
        worlds=Worlds.of(lesson, episodes),
        every=every,
        config=config,
        changes=changes,
        progress=say,
    )
    words = ", ".join(f"{name} {value}" for name, value in best.items())
    console.print(f"{agent}: {words}; saved to {out}, trials in {trials_path(out)}")


def _agent_and_paths(paths: list[Path]) -> tuple[str | None, list[Path]]:
    """The agent that the arguments begin with, if they name one, and the paths after it."""
    from pmoss_agents.registry import agent_names
    from pmoss_env.errors import DescriptionError

    word = str(paths[0])
    named = not paths[0].exists() and (":" in word or word in agent_names())
    if paths[-1].is_dir() or len(paths) == named:
        raise DescriptionError(
            f"OUT is missing: name a file ending in .safetensors after {paths[-1]}"
        )
    return (word, paths[1:]) if named else (None, paths)


def _check_data(path: Path) -> None:
    """Refuses what can be no dataset, such as the name of an agent with a slip."""
    from pmoss_agents.registry import agent_names
    from pmoss_datasets.catalog import is_id
    from pmoss_env.errors import DescriptionError, closest

    if not path.exists() and not is_id(path):
        close = closest(str(path), agent_names())
        hint = f"did you mean {close!r}?" if close else "`pmoss list agents` has the agents"
        raise DescriptionError(f"{path}: is neither an agent nor a dataset; {hint}")


def _learned(
    learner: Agent,
    lesson: Lesson,
    out: Path,
    log: Path | None,
    resume: bool,
    other_code: bool,
    validation: Validation | None,
    trackers: Sequence[Progress],
) -> dict[str, float]:
    """The last update's metrics of a training, which leaves no log without a checkpoint."""
    from pmoss_agents.learning import learn
    from pmoss_agents.training_log import TrainingLog
    from pmoss_env.cli.signals import set_resume_hint
    from pmoss_env.files import file_stamp

    # What train() prints says so, too.
    warnings.filterwarnings("ignore", ".* has made all of its", RuntimeWarning)
    before = file_stamp(out)
    with progress_bar("training") as bar:
        kept = None if log is None else TrainingLog(log, getattr(learner, "updates", 0))

        def tell(done: int, total: int, metrics: Mapping[str, float]) -> None:
            bar(done, total)
            if kept is not None:
                kept(done, total, metrics)
            if validation is not None:
                validation(done, total, metrics)
                if validation.score is not None:
                    metrics = {**metrics, "validation/score": validation.score}
            for track in trackers:
                track(done, total, metrics)

        try:
            metrics = learn(
                learner, lesson, progress=tell, checkpoint=out, allow_other_code=other_code
            )
            learner.save(out)
        except BaseException:
            if not resume and file_stamp(out) == before:
                if log is not None:
                    log.unlink(missing_ok=True)
                if validation is not None:
                    validation.discard()
                set_resume_hint("no checkpoint was written yet: give the same command again")
            else:
                set_resume_hint(
                    f"{out} goes on by the same command with --resume, without agent and --set"
                )
            raise
    return metrics


def _has_trials(out: Path, trials: int | None) -> bool:
    """Whether a checkpoint is that of trials which go on."""
    from pmoss_agents.tuning import trials_path

    return trials is not None and trials_path(out).exists()


def _check_checkpoint(out: Path, resume: bool, overwrite: bool) -> None:
    """Refuses early what could not be written after hours of training, or would replace work."""
    from pmoss_agents.checkpoints import SUFFIX

    check_output(out, suffix="" if resume else SUFFIX)
    if resume:
        return
    check_absent(out, overwrite, ", --resume goes on with it")


def _resumed(path: Path, agent: str | None, changes: Mapping[str, Any]) -> Agent:
    """The agent of a checkpoint that goes on, perhaps on another device."""
    import pmoss_agents

    learner = pmoss_agents.load(path, agent)
    if changes:
        # Only here: it brings torch, which some agents do without.
        from pmoss_agents.devices import go_on_at

        go_on_at(learner, changes)
    return learner


def _refuse(option: str, others: Mapping[str, Any], reason: str = "") -> None:
    """Refuses what contradicts an option."""
    from pmoss_env.errors import DescriptionError

    if refused := [other for other, value in others.items() if value]:
        raise DescriptionError(
            f"{option} with {', '.join(refused)}: {reason}leave out one or the other"
        )


@contextmanager
def _trackers(
    learner: Agent,
    out: Path,
    tensorboard: Path | None,
    wandb: str | None,
    overwrite: bool,
    resume: bool,
) -> Iterator[list[Progress]]:
    """What shows the curves of a training to the programs of others."""
    from pmoss_agents.training_log import TensorBoard, WeightsAndBiases

    updates = getattr(learner, "updates", 0)
    with ExitStack() as stack:
        trackers: list[Progress] = []
        if tensorboard is not None:
            folder = tensorboard / out.stem
            if not resume:
                check_absent(folder, overwrite, ", or another folder")
            trackers.append(stack.enter_context(closing(TensorBoard(folder, updates))))
        if wandb is not None:
            run = WeightsAndBiases(wandb, out, asdict(learner.config), resume=resume)
            trackers.append(stack.enter_context(closing(run)))
        yield trackers


def _renewed(start: str | None, changes: Mapping[str, Any]) -> Agent | None:
    """The agent that begins with the weights of another; None where none is named."""
    import pmoss_agents
    from pmoss_agents.agent import OfflineAgent
    from pmoss_env.errors import UnsupportedError

    if start is None:
        return None
    if not isinstance(other := pmoss_agents.load(start), OfflineAgent):
        raise UnsupportedError(f"{start}: {other.name} learns from no data")
    return other.renewed(**changes)
