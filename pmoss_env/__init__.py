"""Gymnasium environments for placement: which core serves which part of a main-memory index."""

__version__ = "0.1.0"
