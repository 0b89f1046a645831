"""The score of an agent while it learns, in episodes that its data do not have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from pmoss_agents import checkpoints
from pmoss_agents.agent import Agent
from pmoss_agents.training_log import TrainingLog, read_log
from pmoss_datasets import Dataset, Recipe
from pmoss_datasets.domain import Domain, find_domain
from pmoss_datasets.evaluation import episode_seed, evaluate
from pmoss_datasets.several import Several
from pmoss_env.errors import DescriptionError, PmossError, UnsupportedError
from pmoss_env.extras import require
from pmoss_env.pictures import new_figure, write_png

if TYPE_CHECKING:
    from pmoss_agents.learning import Lesson

#: Seed of validation episodes; those of evaluations are below.
SEED = 1001
#: Evaluations of the search that scores 100, and random schedules whose mean scores 0.
_BUDGET, _RANDOM = 2000, 100


def rows_path(checkpoint: Path) -> Path:
    """Where the scores lie beside a checkpoint."""
    return checkpoint.with_name(f"{checkpoint.stem}.validation.jsonl")


@dataclass
class Worlds:
    """The environments in which a lesson is validated.

    Attributes:
        domain: of all of them.
        envs: arguments of each.
        episodes: played in each.
        references: throughputs of score 0 and 100 by the episode's seed, for each environment.
    """

    domain: Domain
    envs: Sequence[Mapping[str, Any]]
    episodes: int
    references: list[dict[int, tuple[float, float]]] = field(default_factory=list)

    @classmethod
    def of(cls, lesson: Lesson, episodes: int) -> Worlds:
        """The environments of a lesson's data, or the one to play in; references are made.

        Raises:
            UnsupportedError: there are no validation episodes, because no schedule is known that
                would score 100.
        """
        data = lesson.data
        parts = data.parts if isinstance(data, Several) else [data]
        if data is not None and not all(isinstance(part, Dataset) for part in parts):
            raise UnsupportedError(_without(str(data.path), "it holds no episodes"))
        domain = find_domain(lesson.domain)
        if data is None:
            envs = [dict(Recipe(env=lesson.env, domain=domain.name).kwargs)]
            names = ["the environment"]
        else:
            envs = [dict(part.metadata.env_kwargs) for part in parts]
            names = [str(part.path) for part in parts]
        worlds = cls(domain, envs, episodes)
        for env, name in zip(envs, names, strict=True):
            try:
                worlds.references.append(worlds._referred(env))
            except PmossError as error:
                raise UnsupportedError(_without(name, str(error))) from error
        return worlds

    def _referred(self, kwargs: Mapping[str, Any]) -> dict[int, tuple[float, float]]:
        references = {}
        if self.domain.measures_host(kwargs):
            raise UnsupportedError("no search can ask a host for the schedule that would score 100")
        with closing(self.domain.make_env(kwargs)) as env, closing(self.domain.judge(env)) as judge:
            for episode in range(self.episodes):
                env_seed = episode_seed(SEED, episode)
                env.reset(seed=env_seed)
                judge.begin()
                references[env_seed] = judge.reference(env_seed, _BUDGET, _RANDOM)
        return references

    def score(self, agent: Agent) -> float:
        """The mean score of an agent over all episodes that have one; 0 where none has.

        An agent that learns from several machines plays on each of them padded.
        """
        player = agent.padded() if len(self.envs) > 1 else agent
        scores = [
            row.score
            for env, references in zip(self.envs, self.references, strict=True)
            for row in evaluate(
                env,
                {agent.name: player},
                [SEED],
                self.episodes,
                env_id=self.domain.env_id,
                references=references,
            ).rows
            if row.score is not None
        ]
        return fmean(scores) if scores else 0.0


class Validation:
    """Scores an agent every so many updates; it is the ``progress`` of fit().

    Beside the checkpoint lie the scores, see rows_path(), and the agent as it was at the best of
    them, see checkpoints.best_path(). What plays is what a checkpoint holds: learning goes on as
    without it.

    Attributes:
        score: of the last update, if it was scored.
        highest: of all scores, None where there is none.
    """

    score: float | None = None

    def __init__(self, agent: Agent, worlds: Worlds, checkpoint: Path, every: int) -> None:
        """Takes what it needs; of an agent that goes on it keeps the scores so far.

        Args:
            every: so many updates.

        Raises:
            DatasetError: the file of scores holds something else.
            DescriptionError: the agent keeps a best checkpoint by another rule.
            MissingExtraError: matplotlib is not installed.
        """
        if getattr(agent.config, "held_out", 0):
            raise DescriptionError(
                f"{agent.name}: held_out = {agent.config.held_out}: keeps the checkpoint of the "
                "lowest loss: leave out one of held_out and --validate-every"
            )
        require("matplotlib")  # better known before hours of training
        self._agent, self._worlds, self._every = agent, worlds, every
        self.rows, self.best = rows_path(checkpoint), checkpoints.best_path(checkpoint)
        updates = getattr(agent, "updates", 0)
        if not updates:
            self.discard()
        self._log = TrainingLog(self.rows, updates)
        self.highest = max((row["score"] for row in read_log(self.rows)), default=None)

    def __call__(self, done: int, total: int, metrics: Mapping[str, float]) -> None:
        """Plays where it is time, and keeps the agent if no score was higher."""
        self.score = None
        if done % self._every and done != total:
            return
        tried = self.best.with_name(f"{self.best.stem}.tried{self.best.suffix}")
        try:
            self._agent.save(tried)
            as_kept = type(self._agent).from_checkpoint(tried, *checkpoints.read(tried))
            # As the file has it: a training that goes on reads it there.
            score = float(f"{self._worlds.score(as_kept):.6g}")
            self._log(done, total, {"score": score})
            self.score = score
            # Of equal ones the later: it has learned more.
            if self.highest is None or score >= self.highest:
                self.highest = score
                tried.replace(self.best)
        finally:
            tried.unlink(missing_ok=True)

    def draw(self) -> Path:
        """Draws the scores over updates beside them; returns the picture's path."""
        rows = read_log(self.rows)
        figure = new_figure(5.0, 3.2)
        axis = figure.add_subplot()
        axis.plot([row["update"] for row in rows], [row["score"] for row in rows], "o-", ms=3)
        for level in (0, 100):
            axis.axhline(level, color="0.7", lw=0.8)
        axis.set_xlabel("updates")
        axis.set_ylabel("score on validation episodes")
        axis.set_title(self._agent.name, fontsize=9)
        return write_png(figure, self.rows.with_suffix(".png"))

    def discard(self) -> None:
        """Removes what it wrote."""
        for path in (self.rows, self.best):
            path.unlink(missing_ok=True)


def _without(name: str, reason: str) -> str:
    return f"{name}: has no validation episodes: leave out --validate-every: {reason}"
