"""Guesses for unknown values: medians of the presets, by named rules."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from pmoss_env.machines.catalog import load_machine
from pmoss_env.machines.description import Machine
from pmoss_env.machines.importing.server_facts import Fact

#: The presets by the vendors of their processors.
PEERS = {
    "Intel": ("sandy-bridge", "skylake-x-4n", "skylake-x-8n", "uv-300h", "xeon-6240m-optane"),
    "AMD": ("milan-nps1", "milan-nps4", "rome-7302"),
    "Arm": ("grace-hopper",),
}
#: The vendor by the name that a processor reports; 0x41 is Arm's number.
_VENDORS = {"GenuineIntel": "Intel", "AuthenticAMD": "AMD", "0x41": "Arm", "ARM": "Arm"}
LINE_KIB = 64 / 1024


class Guesses:
    """Medians of parameters over the presets of a vendor, or over all presets."""

    def __init__(self, vendor: str) -> None:
        """Args: vendor: as the processor reports it; others count as unknown."""
        self.vendor = _VENDORS.get(vendor, "")
        presets = [load_machine(name) for names in PEERS.values() for name in names]
        peers = [load_machine(name) for name in PEERS.get(self.vendor, ())]
        self._groups = [(peers, f"shipped {self.vendor} machines"), (presets, "shipped machines")]

    def median(self, what: str, value_of: Callable[[Machine], float | None]) -> Fact:
        """The median of ``value_of`` over the machines of the vendor that have a value.

        If none of them has a value, the median over all presets.
        """
        for machines, named in self._groups:
            values = [value for m in machines if (value := value_of(m)) is not None]
            if values:
                return Fact(round(median(values), 4), f"guess: median {what} of the {named}", "low")
        raise AssertionError(f"no shipped machine has {what}")

    def parameter(self, name: str, scale: str | None = None) -> Fact:
        """The median of a parameter, or of its product with another one."""

        def value_of(machine: Machine) -> float | None:
            product = 1.0
            for factor in (name, scale):
                if factor is not None:
                    parameter = machine.parameters.get(factor)
                    if parameter is None or not isinstance(parameter.value, float):
                        return None
                    product *= parameter.value
            return product

        return self.median(name if scale is None else f"{name} x {scale}", value_of)


def fitting_ways(kib: float, preferred: float, *, power_of_two: bool) -> float:
    """The ways closest to ``preferred`` that divide a cache into sets; ``preferred`` if none do.

    Args:
        kib: size of the cache.
        preferred: wanted number of ways.
        power_of_two: whether the number of sets must be a power of two.
    """
    lines = kib / LINE_KIB

    def fits(ways: int) -> bool:
        sets = lines / ways
        return sets == int(sets) and not (power_of_two and int(sets) & (int(sets) - 1))

    candidates = [ways for ways in range(1, 65) if fits(ways)]
    return float(min(candidates, key=lambda ways: abs(ways - preferred), default=preferred))
