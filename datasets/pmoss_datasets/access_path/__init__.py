"""Datasets of access-path selection: measured scans, and episodes."""
