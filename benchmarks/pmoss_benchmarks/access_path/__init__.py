"""`pmoss benchmark access-path` and `pmoss access-path calibrate`: models, tables and figures."""
