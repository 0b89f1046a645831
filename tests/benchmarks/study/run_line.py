"""What a store says of the run that made its rows."""

RUN_LINE = {"command": "pmoss", "version": "0.2.0", "machine": {"cpu_model": "Example"}}
