"""Guesses for what cannot be read: medians of the shipped machines, by stated rules."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from pmoss_env.machines.catalog import load_machine
from pmoss_env.machines.description import Machine
from pmoss_env.machines.importing.found import Fact

#: The shipped machines by what their processors call their maker.
PEERS = {
    "Intel": ("sandy-bridge", "skylake-x-4n", "skylake-x-8n", "uv-300h", "xeon-6240m-optane"),
    "AMD": ("milan-nps1", "milan-nps4", "rome-7302"),
    "Arm": ("grace-hopper",),
}
#: What a processor calls its maker, by the name people use; 0x41 is Arm's number.
_VENDORS = {"GenuineIntel": "Intel", "AuthenticAMD": "AMD", "0x41": "Arm", "ARM": "Arm"}
LINE_KIB = 64 / 1024


class Guesses:
    """What the shipped machines of a vendor, or all of them, would make of a missing value."""

    def __init__(self, vendor: str) -> None:
        """Args: vendor: what the processor calls its maker; any other counts as unknown."""
        self.vendor = _VENDORS.get(vendor, "")
        everybody = [load_machine(name) for names in PEERS.values() for name in names]
        peers = [load_machine(name) for name in PEERS.get(self.vendor, ())]
        named = f"shipped {self.vendor} machines"
        self._groups = [(peers, named), (everybody, "shipped machines")]

    def median(self, what: str, of: Callable[[Machine], float | None]) -> Fact:
        """The median of ``of`` over the machines for which it has a value.

        Machines of the same vendor come first, the others if none of them has a value.
        """
        for machines, named in self._groups:
            values = [value for m in machines if (value := of(m)) is not None]
            if values:
                return Fact(round(median(values), 4), f"guess: median {what} of the {named}", "low")
        raise AssertionError(f"no shipped machine has {what}")

    def parameter(self, name: str, scale: str | None = None) -> Fact:
        """The median of a parameter, or of its product with another one."""

        def of(machine: Machine) -> float | None:
            product = 1.0
            for factor in (name, scale):
                if factor is not None:
                    given = machine.parameters.get(factor)
                    if given is None or not isinstance(given.value, float):
                        return None
                    product *= given.value
            return product

        return self.median(name if scale is None else f"{name} x {scale}", of)


def fitting_ways(kib: float, preferred: float, *, power_of_two: bool) -> float:
    """The ways closest to ``preferred`` that divide a cache's lines, into 2^n sets if asked to.

    ``preferred`` itself if none of 1 to 64 do.
    """
    lines = kib / LINE_KIB

    def fits(ways: int) -> bool:
        sets = lines / ways
        return sets == int(sets) and not (power_of_two and int(sets) & (int(sets) - 1))

    candidates = [ways for ways in range(1, 65) if fits(ways)]
    return float(min(candidates, key=lambda ways: abs(ways - preferred), default=preferred))
