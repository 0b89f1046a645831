"""Offline datasets: schema, collection and views."""
