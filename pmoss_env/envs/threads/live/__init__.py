"""Scheduling the threads of a live process: its affinity, what restores it, its times, a load."""
