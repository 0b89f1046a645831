"""`pmoss benchmark ...`: the figures this project publishes."""
