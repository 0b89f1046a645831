"""Published statements about real machines: what they ask, and where they are asked."""
