"""What the study ``performance`` measures on a host, part by part."""
