"""What two schedules do differently: their counters side by side, in words and drawn."""

from pmoss_agents.explaining.differences import Comparison, Run, Table, compare
from pmoss_agents.explaining.reasons import headline, reasons

__all__ = ["Comparison", "Run", "Table", "compare", "headline", "reasons"]
