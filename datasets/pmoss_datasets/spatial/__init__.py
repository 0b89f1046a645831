"""Datasets of spatial scheduling: how its episodes are played, kept and expanded."""
