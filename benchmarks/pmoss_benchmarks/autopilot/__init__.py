"""What the loop of `pmoss autopilot` is worth."""
