"""Tries settings of an agent's range (``ranges.toml``) with Optuna, and keeps the best agent."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pmoss_agents import checkpoints
from pmoss_agents.configs import read_range
from pmoss_agents.learning import Lesson, learn, new_agent
from pmoss_agents.validating import Validation, Worlds
from pmoss_env.errors import DatasetError
from pmoss_env.extras import require

#: progress(trials done, trials, score of the last one, its settings); no score: it was given up.
Progress = Callable[[int, int, float | None, Mapping[str, Any]], None]


def trials_path(checkpoint: Path) -> Path:
    """Where the trials lie beside a checkpoint: Optuna's journal, JSON lines."""
    return checkpoint.with_name(f"{checkpoint.stem}.trials.jsonl")


def tune(
    agent: str,
    lesson: Lesson,
    out: Path,
    trials: int,
    *,
    worlds: Worlds,
    every: int,
    config: str | None = None,
    changes: Mapping[str, Any] | None = None,
    progress: Progress = lambda done, trials, score, settings: None,
) -> dict[str, Any]:
    """Trains an agent again and again; the same call goes on, and gives what one call would.

    The first trial has the committed settings, as far as the range has them. Optuna's TPE sampler
    chooses those of the others. A trial ends early whose score is below the median of the others at
    the same update.

    Args:
        out: checkpoint of the best agent, by the score on validation episodes.
        trials: how many, those that lie beside ``out`` included.
        every: updates between two scores.
        changes: settings that no trial changes.

    Returns:
        The settings of the best agent that were tried, and its ``score``.

    Raises:
        UnknownNameError: the agent has no range.
        DatasetError: the trials beside ``out`` are those of another agent, or were made on other
            data, with other settings or other validation; or ``out`` is missing.
        MissingExtraError: Optuna is not installed.
    """
    values = read_range(agent).values
    require("optuna")
    import optuna

    study = _open_study(trials_path(out), f"{agent} on {lesson.task}")
    fixed = dict(changes or {})
    tried = {name: choices for name, choices in values.items() if name not in fixed}
    state = optuna.trial.TrialState

    def finished() -> list[Any]:
        # What was interrupted has failed, and is tried again.
        states = (state.COMPLETE, state.PRUNED)
        trials_done: list[Any] = study.get_trials(deepcopy=False, states=states)
        return trials_done

    def best_score() -> float:
        return max((t.value for t in finished() if t.value is not None), default=-float("inf"))

    def objective(trial: Any) -> float:
        settings = {name: trial.suggest_categorical(name, c) for name, c in tried.items()}
        learner = new_agent(lesson, agent, config, {**settings, **fixed})
        place = out.with_name(f"{out.stem}.trial{out.suffix}")
        validation = Validation(learner, worlds, place, every)

        def judge(done: int, total: int, metrics: Mapping[str, float]) -> None:
            validation(done, total, metrics)
            if validation.score is not None:
                trial.report(validation.score, done)
                if done < total and trial.should_prune():
                    raise optuna.TrialPruned

        try:
            learn(learner, lesson, progress=judge)
            score: float | None = validation.highest
            assert score is not None  # the last update is scored
            if score > best_score():
                checkpoints.best_path(place).replace(out)
        finally:
            validation.discard()
        return score

    conditions = {
        "settings": fixed,
        "config": config,
        "data": getattr(lesson.data, "checksum", None),
        "env": dict(lesson.env),
        "validation": [worlds.episodes, every],
    }
    _keep_conditions(study, trials_path(out), conditions)
    if best_score() > -float("inf") and not out.is_file():
        raise DatasetError(f"{out}: is missing: remove {trials_path(out)} to begin anew")
    if not finished() and not study.get_trials(deepcopy=False, states=(state.WAITING,)):
        committed = new_agent(lesson, agent, config, fixed).config
        study.enqueue_trial({n: v for n in tried if (v := getattr(committed, n)) in tried[n]})
    while (done := len(finished())) < trials:
        # A sampler of its own for each, so that interruptions change nothing.
        study.sampler = optuna.samplers.TPESampler(seed=done)
        study.optimize(objective, n_trials=1)
        last = finished()[-1]
        progress(done + 1, trials, last.value, last.params)
    return {**study.best_params, "score": study.best_value}


def _open_study(journal: Path, name: str) -> Any:
    """Optuna's study of a journal, which holds no other one."""
    import optuna
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = optuna.storages.JournalStorage(JournalFileBackend(str(journal)))
    if set(optuna.get_all_study_names(storage)) - {name}:
        raise DatasetError(f"{journal}: holds trials of another agent or task")
    return optuna.create_study(
        study_name=name,
        storage=storage,
        direction="maximize",
        pruner=optuna.pruners.MedianPruner(n_startup_trials=3),
        load_if_exists=True,
    )


def _keep_conditions(study: Any, journal: Path, conditions: Mapping[str, Any]) -> None:
    """Notes what all trials have in common; refuses to add others to them."""
    plain = json.loads(json.dumps(conditions, default=str))
    before = study.user_attrs.get("conditions", plain)
    if differ := [name for name, value in plain.items() if before.get(name) != value]:
        raise DatasetError(
            f"{journal}: holds trials with other {' and '.join(differ)}: name another OUT"
        )
    study.set_user_attr("conditions", plain)
