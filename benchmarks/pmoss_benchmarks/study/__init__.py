"""Studies: a description in TOML, one runner, one store of rows, one replay.

A study is ``benchmarks/studies/NAME.toml``. Its rows lie in ``benchmarks/results/NAME.jsonl``. What
a cell does stands in the module of ``pmoss_benchmarks.functions`` that the description names.
"""
