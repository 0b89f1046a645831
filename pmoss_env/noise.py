"""Measurement noise for backends that have none: calibrated on repeated hardware sweeps.

The paper's counters differ from run to run while their trends stay. Factors have mean 1; their
coefficients of variation are those of COUNTERS, and 1.5 % for throughput and response times, all
times the strength. Bandwidths of memories and links have none: controllers count every transfer.

A factor is made of a sum of twelve uniform numbers: close to a normal one, from additions alone.
Logarithms and exponentials differ in their last bits from one CPU to the next.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from pmoss_env import _native
from pmoss_env.checks import check_number
from pmoss_env.types import COUNTERS, Float64Array, HardwareSnapshot

#: Coefficient of variation of the throughput between repeated runs of one schedule.
THROUGHPUT_NOISE = 0.015
#: Highest strength: readings are then up to a thousand times the true value, and finite.
MAX_STRENGTH = 1e3
# Ends the seed of the stream of response times.
_RESPONSE_TIMES = 1


class Noise:
    """A seeded stream of noisy readings; the same seed gives the same bits.

    With strength 0 every value passes through untouched.
    """

    def __init__(self, strength: float, seed: tuple[int, ...]) -> None:
        """Starts a stream.

        Args:
            strength: 0 for none, 1 for as much as on hardware.
            seed: non-negative whole numbers that name the stream.

        Raises:
            DescriptionError: a strength that is negative, or above MAX_STRENGTH.
        """
        check_number("noise", strength, 0.0, MAX_STRENGTH)
        self._strength = float(strength)
        self._seed = seed

    @cached_property
    def _stream(self) -> _native.NoiseStream:
        # Made at the first draw: every episode has streams, and without noise none is drawn from.
        return _native.NoiseStream(self._strength, self._seed)

    def throughput_factors(self, readings: int) -> Float64Array:
        """(readings,) float64: what the next readings of a throughput are multiplied by."""
        if self._strength == 0:
            return np.ones(readings)
        return self._stream.readings(THROUGHPUT_NOISE, readings)

    @cached_property
    def _of_response_times(self) -> _native.NoiseStream:
        # A stream of its own, so that it shifts no draw of the other.
        return _native.NoiseStream(self._strength, (*self._seed, _RESPONSE_TIMES))

    def response_time_factor(self) -> float:
        """What the next reading of response times is multiplied by.

        Under a closed load the mean response time is the number of queries in flight over the
        throughput: it varies as much. The median and the 99th percentile share a factor, so that
        they keep their order.
        """
        if self._strength == 0:
            return 1.0
        return float(self._of_response_times.readings(THROUGHPUT_NOISE, 1)[0])

    def response_times(self, snapshot: HardwareSnapshot) -> HardwareSnapshot:
        """The snapshot with a noisy reading of its response times, for policies."""
        if self._strength == 0:
            return snapshot
        factor = self.response_time_factor()
        return replace(
            snapshot,
            latency_p50_us=snapshot.latency_p50_us * factor,
            latency_p99_us=snapshot.latency_p99_us * factor,
            latency_p999_us=snapshot.latency_p999_us * factor,
            latency_max_us=snapshot.latency_max_us * factor,
        )

    def snapshot(
        self, snapshot: HardwareSnapshot, throughput: float | None = None
    ) -> HardwareSnapshot:
        """A noisy reading of a snapshot.

        Counters get independent factors; total and per-slice throughput share one, so that the
        shares still sum to the total. Response times stay as measured; see response_times().

        Args:
            throughput: the total already read, Mq/s; a new reading is drawn if None.
        """
        if self._strength == 0:
            return snapshot
        variations = [counter.noise for counter in COUNTERS]
        rows = len(snapshot.slice_counters)
        counters = snapshot.slice_counters * self._stream.factors(variations, rows)
        if throughput is None:
            throughput = snapshot.throughput * float(self.throughput_factors(1)[0])
        scale = throughput / snapshot.throughput if snapshot.throughput else 1.0
        return replace(
            snapshot,
            throughput=throughput,
            slice_throughput=snapshot.slice_throughput * scale,
            slice_counters=counters,
            provenance={**snapshot.provenance, "noise": self._strength},
        )
