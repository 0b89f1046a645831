"""The best schedule of an episode that several long searches find."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pmoss_env.baselines import Context, SearchResult, best_fit, local_search, lpt, random
from pmoss_env.types import Schedule

#: Evaluations of all searches of an episode together.
LONG_BUDGET = 40_000
#: Where they start. Each gets an eighth of the budget; the best one goes on with the other half.
STARTS = ("lpt", "best-fit", "random", "incumbent")
#: Streams of chance under an episode's seed: those of Judge.reference() and play() are below.
_STREAM = 10


@dataclass(frozen=True)
class Found:
    """What the searches found.

    Attributes:
        throughput: the best, Mq/s.
        start: where the best one started; one of STARTS.
        evaluations: of all together.
    """

    throughput: float
    start: str
    evaluations: int


def long_search(env: Any, backend: Any, seed: int, budget: int = LONG_BUDGET) -> Found:
    """Searches an episode from several starts; the same seed gives the same bits.

    Args:
        env: in the episode, without noise.
        backend: of the same kind, set to the episode's instance; it can be asked move by move.
        seed: of the episode.
        budget: evaluations in all, at least 8 times 3.
    """
    used = 0
    results: dict[str, SearchResult] = {}
    for number, start in enumerate(STARTS):
        context = env.context(np.random.default_rng((seed, _STREAM + number)), backend)
        results[start] = local_search(context, budget // 8, _begin(start, context))
        used += results[start].evaluations
    best = max(results, key=lambda name: results[name].throughput)
    context = env.context(np.random.default_rng((seed, _STREAM + len(STARTS))), backend)
    last = local_search(context, budget - used, results[best].schedule)
    # Fresh: what a backend tells after many moves may differ in the last bits.
    throughput = backend.place(last.schedule)
    return Found(float(throughput), best, used + last.evaluations)


def _begin(start: str, context: Context) -> Schedule:
    if start == "incumbent":
        assert context.incumbent is not None
        return context.incumbent
    return {"lpt": lpt, "best-fit": best_fit, "random": random}[start](context)
