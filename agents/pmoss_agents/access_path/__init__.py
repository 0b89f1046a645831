"""Agents for pmoss/AccessPath-v0: cost models, a tree, a bandit and fixed paths."""
