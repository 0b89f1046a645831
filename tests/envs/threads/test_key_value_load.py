"""The key-value load: every pattern answers requests, and what makes no sense is refused."""

import pytest

from pmoss_env.envs.threads.key_value_load import run_load
from pmoss_env.errors import BackendError, DescriptionError, UnknownNameError


def test_the_load_does_what_it_says():
    for pattern in ("readrandom", "readseq", "fillrandom", "fillseq", "mixed50"):
        result = run_load(pattern, threads=2, keys=50, value_bytes=5000, requests=300)
        assert result.requests == 300
        assert result.gb_per_s > 0.0
        assert result.p99_ms > 0.0
    assert run_load("readseq", threads=1, keys=5, value_bytes=1000, seconds=0.2).seconds >= 0.2
    with pytest.raises(UnknownNameError):
        run_load("readall")
    with pytest.raises(DescriptionError, match="threads = 0"):
        run_load("readseq", threads=0)
    with pytest.raises(BackendError, match="node 500"):
        run_load("readseq", node=500)
