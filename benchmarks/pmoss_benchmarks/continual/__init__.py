"""Benchmarks of continual scheduling."""
