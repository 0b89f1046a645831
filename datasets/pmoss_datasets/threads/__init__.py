"""Datasets of thread scheduling."""
