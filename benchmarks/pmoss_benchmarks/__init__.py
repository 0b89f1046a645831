"""Benchmarks: the figures this project publishes, each with the command that makes it."""
