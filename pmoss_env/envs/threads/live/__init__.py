"""Scheduling the threads of a live process by affinity."""
