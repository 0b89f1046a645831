"""Tracks, trainings and statistics of the studies in which agents play; see functions.play."""
