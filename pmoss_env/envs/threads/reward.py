"""The reward of a migration (Smart Scheduler, equations 1 to 3)."""

from __future__ import annotations

from typing import Literal

from pmoss_env.envs.threads.server import Sample

Form = Literal["normalised", "raw"]
Utilisation = Literal["cpu", "bandwidth"]
FORMS = ("normalised", "raw")
UTILISATIONS = ("cpu", "bandwidth")
#: Weights of LNA, BWVN and Util.
WEIGHTS = (0.45, 0.45, 0.1)
#: Weight of a written byte relative to a read byte.
WRITE_WEIGHT = 3.0


def weighted_bandwidth(sample: Sample) -> float:
    """BWVN of equation 2: read + 3 x written bandwidth of slow memory, MB/s."""
    return 1e3 * (sample.slow_read_gb_per_s + WRITE_WEIGHT * sample.slow_write_gb_per_s)


def terms(
    before: Sample,
    after: Sample,
    *,
    form: Form = "normalised",
    utilisation: Utilisation = "cpu",
    slow_gb_per_s: float = 1.0,
) -> tuple[float, float, float]:
    """LNA, BWVN and Util of a migration between two epochs.

    "raw" follows the paper. LNA is the change of the local accesses to slow memory per second. BWVN
    is the bandwidth after the migration in MB/s. Util is the change of a ratio. They differ by
    orders of magnitude, and BWVN is a level, not a change.

    "normalised" gives all three changes in units of one thread's share. With T threads, LNA = T x
    (change of the local accesses) / (all accesses before). BWVN = T x (change of BWVN) / (BWVN
    before). Util = T x (change of the ratio). Moving one thread to its data gives LNA = +1 if
    nothing else changes.

    Args:
        before: the epoch before the migration.
        form: "normalised" or "raw".
        utilisation: Util is that of the CPUs, or of the slow memory's bandwidth.
        slow_gb_per_s: read bandwidth of all slow memory, for utilisation "bandwidth".
    """
    local = after.local_slow_accesses - before.local_slow_accesses
    if utilisation == "cpu":
        util = after.utilisation - before.utilisation
    else:
        change = weighted_bandwidth(after) - weighted_bandwidth(before)
        util = change / (1e3 * slow_gb_per_s)
    if form == "raw":
        return local, weighted_bandwidth(after), util
    threads = max(before.threads.size, 1)
    accesses = before.local_slow_accesses + before.remote_slow_accesses
    bandwidth = weighted_bandwidth(before)
    return (
        threads * local / accesses if accesses > 0 else 0.0,
        threads * (weighted_bandwidth(after) / bandwidth - 1.0) if bandwidth > 0 else 0.0,
        threads * util,
    )


def weighted(values: tuple[float, float, float]) -> float:
    """Equation 3."""
    return sum(weight * value for weight, value in zip(WEIGHTS, values, strict=True))
