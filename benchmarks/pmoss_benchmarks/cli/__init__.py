"""Commands of evaluations and benchmarks."""
