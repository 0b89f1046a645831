"""What the cells of studies do: one module a function (see pmoss_benchmarks.study.function)."""
