"""Agents: one readable file per agent, one interface."""
