"""Datasets and opponents of continual scheduling."""
