"""Differences of two schedules: their counters side by side, in words and as a picture."""

from pmoss_agents.explaining.differences import Comparison, Run, Table, compare
from pmoss_agents.explaining.reasons import headline, reasons

__all__ = ["Comparison", "Run", "Table", "compare", "headline", "reasons"]
