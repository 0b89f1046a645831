"""The loop on this host: observe, propose a change, measure it, keep or revert it."""
