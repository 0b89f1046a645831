"""A key-value load on this host, with threads and copies of values."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from pmoss_env import _native
from pmoss_env.checks import check_whole, is_number
from pmoss_env.envs.threads.programs import load_program
from pmoss_env.errors import BackendError, DescriptionError
from pmoss_env.platforms import require_host

_MOST_THREADS, _MOST_NODES, _LARGEST = 65_536, 65_536, 10**15


@dataclass(frozen=True)
class LoadResult:
    """The result of a load.

    Attributes:
        seconds: real time.
        user_seconds: processor time in user mode, of the whole process since the start.
        kernel_seconds: processor time in the kernel, the same.
        p99_ms: 99th percentile of a request's latency.
    """

    requests: int
    seconds: float
    user_seconds: float
    kernel_seconds: float
    gb_per_s: float
    p99_ms: float


def run_load(
    pattern: str,
    *,
    threads: int = 4,
    keys: int = 2000,
    value_bytes: int = 100_000,
    node: int | None = None,
    requests: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    on_start: Callable[[], None] | None = None,
) -> LoadResult:
    """Runs a load until its requests are answered, its time is over, or Ctrl-C.

    Args:
        pattern: a key of ``PROGRAMS``.
        keys: number of values in the store, which takes keys x value_bytes of memory.
        node: node of the values; None: as the kernel places them.
        requests: limit of requests; None: no limit.
        seconds: time limit; None: no limit.
        on_start: called when the store is filled and the threads run.

    Raises:
        DescriptionError: an invalid value.
        BackendError: memory or the node is refused, or a value was damaged.
    """
    require_host("a load on this host")
    import resource  # not on Windows

    program = load_program(pattern)
    if seconds is not None and (not is_number(seconds) or not seconds > 0.0):
        raise DescriptionError(f"seconds = {seconds!r}: must be a positive number")
    check_whole("threads", threads, 1, _MOST_THREADS)
    check_whole("keys", keys, 1, _LARGEST)
    check_whole("value_bytes", value_bytes, 8, _LARGEST)
    if requests is not None:
        check_whole("requests", requests, 1, _LARGEST)
    if node is not None:
        check_whole("node", node, 0, _MOST_NODES)
    try:
        load = _native.KeyValueLoad(
            threads=threads,
            write_share=program.write_share,
            sequential=program.sequential,
            keys=keys,
            value_bytes=value_bytes,
            node=-1 if node is None else node,
            requests=requests or 0,
            seed=seed,
        )
    except (ValueError, TypeError) as error:
        raise DescriptionError(str(error)) from error
    except (OSError, RuntimeError) as error:
        raise BackendError(f"the load cannot start: {error}") from error
    before = resource.getrusage(resource.RUSAGE_SELF)
    began = time.monotonic()
    end = math.inf if seconds is None else began + seconds
    load.start()
    if on_start is not None:
        on_start()
    try:
        while load.running and time.monotonic() < end:
            # An end is seen within a hundredth of the time that has passed.
            passed = time.monotonic() - began
            time.sleep(min(0.05, max(passed / 100, 0.0005), max(0.0, end - time.monotonic())))
    except KeyboardInterrupt:
        pass
    finally:
        load.stop()
    passed = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_SELF)
    if load.damaged:
        raise BackendError(f"{load.damaged} values were damaged: this is a bug or broken memory")
    return LoadResult(
        requests=load.requests,
        seconds=passed,
        user_seconds=after.ru_utime - before.ru_utime,
        kernel_seconds=after.ru_stime - before.ru_stime,
        gb_per_s=load.requests * value_bytes * 1e-9 / passed,
        p99_ms=load.latency_ns(0.99) * 1e-6,
    )
