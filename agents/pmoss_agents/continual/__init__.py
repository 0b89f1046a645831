"""Agents of continual scheduling."""
