"""Where the original's public repositories keep their files, and where a sorted copy has them.

The system's repository has schedules below ``src/config`` and snapshots in ``kb_b__``, and no
machine files. The learner's has ``machines/NAME/hw.cfg``, the schedules it was trained on in
``machine_configs``, those it wrote in ``pmoss_machine_configs``, and expects snapshots in ``kbs``.
"""

from __future__ import annotations

from pathlib import Path

from pmoss_datasets.original.machine_file import MachineFile, read_machine_file
from pmoss_env.errors import DatasetError

#: Folder of the snapshots, unless named otherwise.
KNOWLEDGE_BASE = "kb_b__"


def find_files(
    folder: Path,
    machine: str,
    knowledge_base: str | None = None,
    machine_file: Path | None = None,
) -> tuple[MachineFile, list[Path], list[Path], Path | None]:
    """Looks for the files of a machine wherever the repositories have them.

    Args:
        folder: a clone of either repository, or a copy with ``machines``, ``schedules``,
            ``learned`` and ``kb_b__``.
        machine: its name, such as "intel_skx_4s_8n".
        knowledge_base: folder of the snapshots; None: KNOWLEDGE_BASE, if it is there.
        machine_file: where the folder has none, as a clone of the system's repository.

    Returns:
        The machine, and the files of schedules of 256 slices that were run to learn from. Then the
        files that a learned scheduler wrote, and the folder of the snapshots, or None.

    Raises:
        DatasetError: no machine file; or neither schedules nor snapshots; or no such snapshots.
    """
    vendor, _, short = machine.partition("_")
    described = read_machine_file(machine_file or _machine_file(folder, machine), machine)
    names = [name for name in (machine, short) if name]
    homes = [folder / home / name for home in ("schedules", "src/config") for name in names]
    homes.append(folder / "machine_configs" / machine)
    written = [folder / home / machine for home in ("learned", "pmoss_machine_configs")]
    schedules = sorted({path for home in homes for path in home.glob("c_*_256.txt")})
    learned = sorted(path for home in written for path in home.glob("*/c_*_256.txt"))
    places = [
        folder / (knowledge_base or KNOWLEDGE_BASE),
        folder / "kbs" / vendor / short / (knowledge_base or KNOWLEDGE_BASE),
    ]
    # A folder may hold the snapshots of another machine, whose sweepers had other CPUs.
    mine = [p for p in places if any((p / str(cpu)).is_dir() for cpu in described.sweepers)]
    if not mine and knowledge_base:
        raise DatasetError(f"{places[0]}: is no folder of snapshots of {machine}")
    if not schedules and not learned and not mine:
        looked = ", ".join(str(home.relative_to(folder)) for home in (*homes, *written, *places))
        raise DatasetError(
            f"{folder}: holds neither schedules of 256 slices nor snapshots of {machine}; looked "
            f"in {looked}"
        )
    return described, schedules, learned, mine[0] if mine else None


def _machine_file(folder: Path, machine: str) -> Path:
    places = (folder / "machines" / f"{machine}.cfg", folder / "machines" / machine / "hw.cfg")
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        names = " or ".join(str(place.relative_to(folder)) for place in places)
        raise DatasetError(
            f"{folder}: has no machine file {names}; name one that is elsewhere (--machine-file)"
        )
    return path
