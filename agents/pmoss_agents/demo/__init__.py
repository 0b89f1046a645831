"""The whole idea in one run: a real index is re-scheduled, then a learned agent meets a server."""

from pmoss_agents.demo.plan import AGENT, FULL, QUICK, RULES, TUNED, DemoResult, Plan
from pmoss_agents.demo.running import run_demo

__all__ = ["AGENT", "FULL", "QUICK", "RULES", "TUNED", "DemoResult", "Plan", "run_demo"]
