"""Benchmarks of the spatial environment."""
