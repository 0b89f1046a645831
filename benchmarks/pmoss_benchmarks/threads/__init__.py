"""Parts of the Smart Scheduler paper's results; see functions.threads."""
