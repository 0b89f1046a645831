"""Models of scans under other conditions: their weights, and causes of misses.

Figures of the paper on access paths that lie outside have a cause in words. A cause changes what
the pair of linear models learns from, and the same figures are asked again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np

from pmoss_agents.access_path.linear_cost import LinearCost
from pmoss_benchmarks.access_path.models import score, train
from pmoss_benchmarks.study.function import Cell, Row, Rows, Run
from pmoss_benchmarks.study.tables import TableOfRows, bold_inside
from pmoss_datasets.access_path.scans import AccessPathRecipe, collect_scans
from pmoss_env.envs.access_path import FEATURES, PATHS

#: The pair's config, and which scans it learns from and is scored on.
CAUSES: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "as judged": ({}, "all"),
    "products": ({"features": "products"}, "all"),
    "products, relative errors": ({"features": "products", "weighted": True}, "all"),
    "one distance": ({}, "of another blade"),
    "no other use of the engine": ({}, "beside an idle engine"),
    "large columns": ({}, "of large columns"),
}
_COMBINATIONS, _REPEATS = 800, 2
_LARGE_MB = 100.0
#: The last digits of a fit depend on the linear algebra of the processor.
TOLERANCES = dict.fromkeys(("scale", "weights", "got"), 1e-10)


@dataclass(frozen=True)
class Settings:
    """What the rows depend on.

    Attributes:
        cases: "weights" and keys of CAUSES.
    """

    AXES: ClassVar = ("cases",)

    cases: tuple[str, ...] = ("weights", *CAUSES)


def cells(settings: Settings) -> list[Cell]:
    """The cases."""
    return [{"case": case} for case in settings.cases]


def measure(run: Run, cell: Cell) -> Row:
    """The figures of a case.

    Returns:
        Of the weights the ``scans`` that the pair was fitted
        to, ``terms``, the ``scale`` that each is divided by, and ``weights`` by path in ms. Of a
        cause the ``scans``, and ``got`` by statement of the study ``access-path``.
    """
    return _weights() if cell["case"] == "weights" else _cause(cell["case"])


def _weights() -> Row:
    features, times = collect_scans(AccessPathRecipe(combinations=200, repeats=4)).pairs()
    pair = train("linear pair", features, times)
    assert isinstance(pair, LinearCost)
    weights = pair.models.theta
    return {
        "scans": len(features),
        "terms": ["constant", *FEATURES],
        "scale": np.asarray(pair.scale).tolist(),
        "weights": {path: weights[number].tolist() for number, path in enumerate(PATHS[:2])},
    }


def _cause(case: str) -> Row:
    config, which = CAUSES[case]
    features, times = _scans()
    size, latency, engine = (
        features[:, list(FEATURES).index(name)]
        for name in ("data_size", "latency", "engine_traffic")
    )
    chosen = {
        "all": np.ones(len(features), dtype=np.bool_),
        "of another blade": latency == latency.max(),
        "beside an idle engine": engine == 0.0,
        "of large columns": size >= _LARGE_MB,
    }[which]
    features, times = features[chosen], times[chosen]
    # The first four fifths to learn from: combinations are drawn in no order.
    cut = len(features) * 4 // 5 // _REPEATS * _REPEATS
    agent = LinearCost(**config)
    agent.learn(features[:cut], times[:cut])
    scores = score(case, agent, features[cut:], times[cut:])
    return {
        "scans": len(features),
        "got": {
            "R2 of the CPU model": scores.r2["cpu"],
            "R2 of the GRU model": scores.r2["offload"],
            "precision of the pair": scores.precision,
            "recall of the pair": scores.recall,
            "F1 of the pair": scores.f1,
        },
    }


@cache
def _scans() -> tuple[Any, Any]:
    recipe = AccessPathRecipe(combinations=_COMBINATIONS, repeats=_REPEATS)
    return collect_scans(recipe).pairs()


def _weights_table(rows: Rows) -> TableOfRows:
    (row,) = (row for row in rows if row["case"] == "weights")
    lines = [
        [
            f"{term}, {FEATURES[term]}" if term in FEATURES else term,
            f"{row['scale'][number]:.4g}",
            *(f"{values[number]:.2f}" for values in row["weights"].values()),
        ]
        for number, term in enumerate(row["terms"])
    ]
    return TableOfRows(["term", "divided by", *(f"{path}, ms" for path in row["weights"])], lines)


TABLES = {"weights": _weights_table}


def causes(rows: Rows, judged: Rows, *statements: str) -> TableOfRows:
    """Figures of the pair of linear models under each cause; bold ones lie inside."""
    ranges = {each["what"]: each for each in judged if each["what"] in statements}
    lines = [
        [
            row["case"],
            f"{row['scans']:,}",
            *(bold_inside(row["got"][name], ranges[name]) for name in statements),
        ]
        for row in rows
        if "got" in row
    ]
    heads = [f"{name}, from {ranges[name]['low']:g}" for name in statements]
    return TableOfRows(["", "scans", *heads], lines)
