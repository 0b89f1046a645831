"""The whole access-path benchmark: scans, the paper's rows, models, agents, report and figures."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pmoss_benchmarks.access_path.episodes import Played, play
from pmoss_benchmarks.access_path.figures import draw_figures
from pmoss_benchmarks.access_path.models import ModelScores
from pmoss_benchmarks.access_path.reproduction import Row, reproduce
from pmoss_benchmarks.report import write_report
from pmoss_datasets.access_path.scans import AccessPathRecipe, collect_scans, open_scans
from pmoss_env.extras import require

#: progress(stage, done, total).
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class AccessPathResult:
    """What the benchmark found.

    Attributes:
        rows: of the paper.
        scores: of the models.
        episodes: of the agents.
        observations: scans that models and agents learned from and were tested on.
    """

    rows: list[Row]
    scores: list[ModelScores]
    episodes: list[Played]
    observations: int

    @property
    def judged(self) -> list[Row]:
        """The rows that nothing was fitted to."""
        return [row for row in self.rows if row.verdict != "fitted"]

    @property
    def outside(self) -> list[Row]:
        """Those of them outside their tolerance."""
        return [row for row in self.judged if row.verdict == "outside"]


def run_access_path(
    dataset: Path | None = None,
    out: Path | None = None,
    *,
    combinations: int = 2048,
    repeats: int = 50,
    threads: int = 1,
    progress: Progress = lambda stage, done, total: None,
) -> AccessPathResult:
    """Runs the benchmark; writes ``results.json`` and ``figures.png`` to the folder ``out``.

    Args:
        dataset: of scans; None: simulate one.
        out: folder, or None.
        combinations: of features, if one is simulated.
        repeats: of each, if one is simulated.
        threads: to simulate in.
        progress: called often.

    Raises:
        MissingExtraError: scikit-learn or, for figures, matplotlib is missing; told before the
            work.
        DatasetError: the dataset is damaged.
    """
    require("sklearn", *(["matplotlib"] if out else []))
    with tempfile.TemporaryDirectory() as temporary:
        if dataset is None:
            recipe = AccessPathRecipe(combinations=combinations, repeats=repeats)
            bar = partial(progress, "simulating scans")
            scans = collect_scans(recipe, Path(temporary) / "scans", bar, threads)
        else:
            scans = open_scans(dataset)
        rows, scores, measurements = reproduce(scans, lambda what: progress(what, 0, 1))
        episodes = play(scans, partial(progress, "playing episodes"))
        observations = len(scans)
        facts = {"id": scans.id, "checksum": scans.checksum, "observations": observations}
    result = AccessPathResult(rows, scores, episodes, observations)
    if out:
        write_report(
            out / "results.json",
            [__name__],
            dataset=facts,
            rows=[row.as_dict() for row in rows],
            models=[score.as_dict() for score in scores],
            agents=[played.as_dict() for played in episodes],
        )
        draw_figures(measurements, out / "figures.png")
    return result
