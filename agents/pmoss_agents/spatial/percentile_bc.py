"""Behaviour cloning on the best x % of the episodes.

"%BC" of Chen et al., Decision Transformer, NeurIPS 2021, section 5.2: the plainest way to learn
more from good episodes than from bad ones, and what any offline learner has to beat.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pmoss_agents.spatial import bc


@dataclass(frozen=True)
class Config(bc.Config):
    """Settings of behaviour cloning; ``keep_best`` is x / 100, by the return of ``reward``."""

    agent: ClassVar[str] = "percentile-bc"

    keep_best: float = 0.1


class PercentileBC(bc.BehaviourCloning):
    """Behaviour cloning of the best episodes."""

    name = "percentile-bc"
    Config = Config
