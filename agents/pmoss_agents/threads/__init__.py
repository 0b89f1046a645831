"""Agents for pmoss/ThreadScheduling-v0, and the loop that runs them."""

from pmoss_agents.threads.base import run_episode

__all__ = ["run_episode"]
