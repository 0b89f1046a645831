"""What the loop of `pmoss run autopilot` is worth."""
