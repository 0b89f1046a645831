"""The loop on this host: probe, act, measure what came of it, keep or revert, and again."""
