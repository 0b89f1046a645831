"""Agents for pmoss/SpatialScheduling-v0: networks that score core tiles, and how they learn."""
