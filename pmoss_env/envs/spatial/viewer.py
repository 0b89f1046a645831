"""Pictures of a placement: the grid of tiles with nodes, sockets, slices and load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pmoss_env.baselines import slice_load
from pmoss_env.machines import Machine
from pmoss_env.machines.grid import borders, tile_groups
from pmoss_env.pictures import new_figure, pixels_of
from pmoss_env.types import Float64Array, Int32Array, Schedule

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pmoss_env.envs.spatial.session import Session

#: Characters for light to heavy load.
SHADES = " ░▒▓█"
INK = "#1d2733"
SOCKET_INK = "#1d2733"
NODE_INK = "#7a8794"
IDLE = "#f3f1ec"
NOT_A_WORKER = "#d9d9d6"
#: Around the tile that holds the next slice.
RING = "#1a5fa8"
#: Colour map of loads, from light to heavy; readable in grey and by colour-blind people.
COLOURS = "YlOrRd"
FRAMES = "thin frame: node   thick: socket"
#: Legend of a picture of slices.
LEGEND = f"number: slices on the core   grey: R router, S sweeper, · unused   {FRAMES}"
#: Its second line while an episode runs.
UNDER_WAY = (
    "a/b: a of these b slices are placed, the others not yet   ring: where the next slice is"
)
_LETTERS = {"router": "R", "sweeper": "S", "other": "·"}


def slices_per_core(machine: Machine, schedule: Schedule) -> Int32Array:
    """(C,) int32, number of slices on each core."""
    return np.bincount(schedule.cores, minlength=machine.cores).astype(np.int32)


def show(session: Session, schedule: Schedule, steps: int, throughput: float, mode: str) -> Any:
    """Renders a state of an episode.

    Args:
        throughput: latest, Mq/s.
        mode: "ansi" for text, or "rgb_array" for an (height, width, 3) uint8 image.
    """
    machine, before = session.machine, session.incumbent_snapshot
    snapshot = session.final_snapshot or before
    load = np.bincount(schedule.cores, slice_load(snapshot), machine.cores)
    title = (
        f"{steps} of {session.slices} slices placed, {throughput:.2f} Mq/s "
        f"(incumbent {before.throughput:.2f})"
    )
    placed: npt.NDArray[Any] | None = None
    next_core: int | None = None
    if steps < session.slices:  # else all are placed
        placed = np.bincount(schedule.cores[session.order[:steps]], minlength=machine.cores)
        following = int(session.order[steps])
        next_core = int(schedule.cores[following])
        title += f", next: slice {following} of core {next_core}"
    if mode == "ansi":
        return as_text(machine, schedule, load, title, placed=placed, next_core=next_core)
    # All schedules of an episode share the incumbent's scale.
    highest = np.bincount(session.incumbent.cores, slice_load(before)).max()
    return as_image(
        machine,
        schedule,
        load,
        title,
        highest_load=float(highest),
        placed=placed,
        next_core=next_core,
        note="" if placed is None else UNDER_WAY,
    )


def as_text(
    machine: Machine,
    schedule: Schedule,
    load_per_core: npt.NDArray[Any],
    title: str,
    unit: str = "slices",
    load: str = "load",
    roles: str = "R router, S sweeper; ",
    placed: npt.NDArray[Any] | None = None,
    next_core: int | None = None,
) -> str:
    """The placement as text.

    Each tile shows its number of slices and a shade for its load relative to the most loaded core;
    routers are R, sweepers S. ``|`` and ``-`` separate nodes, ``#`` and ``=`` sockets.

    Args:
        load_per_core: (C,) load of each core, in any unit.
        placed: (C,) slices of each core that are placed already; None: all are.
        next_core: core that is marked by ``>``: the next slice is there.
    """
    words = _counts(slices_per_core(machine, schedule), placed)
    share = _share(load_per_core)
    node, socket = tile_groups(machine)
    width = max(2, *map(len, words)) + 1 + (next_core is not None)
    lines = [title]
    for row in range(machine.rows):
        if row:
            lines.append(_rule(node[row - 1 : row + 1], socket[row - 1 : row + 1], width))
        text = ""
        for col in range(machine.cols):
            if col:
                text += _bar(node[row, col - 1 : col + 1], socket[row, col - 1 : col + 1])
            core = machine.core_of_tile[row * machine.cols + col]
            if core < 0:
                text += " " * width
            elif machine.worker_mask[core]:
                shade = SHADES[int(np.ceil(share[core] * (len(SHADES) - 1)))]
                mark = ">" if core == next_core else ""
                text += f"{mark + words[core]:>{width - 1}}{shade}"
            else:
                text += _LETTERS[machine.role_of_core[core]].rjust(width - 1) + " "
        lines.append(text.rstrip())
    lines.append(
        f"number: {unit} on the core; shade: {load}, █ = {load_per_core.max():.3g}; "
        f"{roles}| --- nodes, # === sockets"
    )
    if placed is not None:
        lines.append("a/b: a of these b are placed, the others not yet; >: the next one is there")
    return "\n".join(line for line in lines if line)


def as_image(
    machine: Machine,
    schedule: Schedule,
    load_per_core: npt.NDArray[Any],
    title: str,
    **options: Any,
) -> npt.NDArray[np.uint8]:
    """The placement as an (height, width, 3) uint8 image; arguments as of draw_placement()."""
    size = (0.62 * machine.cols + 2.2, 0.62 * machine.rows + 1.3)
    figure = new_figure(max(6.4, size[0]), size[1])
    draw_placement(figure.add_subplot(), machine, schedule, load_per_core, title, **options)
    return pixels_of(figure)


def draw_placement(
    axes: Axes,
    machine: Machine,
    schedule: Schedule,
    load_per_core: npt.NDArray[Any],
    title: str,
    load_label: str = "load of the core",
    highest_load: float | None = None,
    note: str = "",
    legend: str = LEGEND,
    placed: npt.NDArray[Any] | None = None,
    next_core: int | None = None,
) -> None:
    """Draws a placement into ``axes`` of a matplotlib figure, with a colour bar.

    Every core is a tile with its number of slices and the colour of its load. Grey tiles are
    routers (R), sweepers (S) and idle roles. Thin frames are NUMA nodes, thick ones sockets.

    Args:
        load_per_core: (C,) load of each core.
        load_label: meaning of the load, with its unit.
        highest_load: load of the darkest colour, for comparable pictures; None: the largest.
        note: second line of the legend.
        legend: first line of the legend.
        placed: (C,) slices of each core that are placed already; None: all are.
        next_core: core that gets a ring: the next slice is there.
    """
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.collections import LineCollection
    from matplotlib.colors import Normalize
    from matplotlib.patches import FancyBboxPatch

    counts = slices_per_core(machine, schedule)
    words = _counts(counts, placed)
    top = float(load_per_core.max()) if highest_load is None else highest_load
    scale = ScalarMappable(Normalize(0, top if top > 0 else 1.0), colormaps[COLOURS])
    for tile, core in enumerate(machine.core_of_tile):
        if core < 0:
            continue
        row, col = divmod(tile, machine.cols)
        worker = bool(machine.worker_mask[core])
        if not worker:
            face: Any = NOT_A_WORKER
        elif counts[core] == 0:
            face = IDLE
        else:
            face = scale.to_rgba(load_per_core[core])
        # An artist, because the limits do not depend on the tiles.
        tile_drawn = axes.add_artist(
            FancyBboxPatch(
                (col - 0.39, row - 0.39),
                0.78,
                0.78,
                boxstyle="round,pad=0,rounding_size=0.12",
                facecolor=face,
                edgecolor=RING if core == next_core else "none",
                linewidth=2.5,
            )
        )
        dark = worker and counts[core] > 0 and _luminance(face) < 0.45
        number = axes.text(
            col,
            row,
            words[core] if worker else _LETTERS[machine.role_of_core[core]],
            ha="center",
            va="center_baseline",
            fontsize=10 if worker and len(words[core]) < 3 else 8,
            color="white" if dark else (INK if worker else NODE_INK),
        )
        # Excluded from the layout, whose computation would take most of a frame's time.
        for drawn in (tile_drawn, number):
            drawn.set_in_layout(False)
    node, socket = tile_groups(machine)
    for group, ink, width in ((node, NODE_INK, 0.9), (socket, SOCKET_INK, 2.2)):
        axes.add_collection(
            LineCollection(borders(group), colors=ink, linewidths=width, capstyle="round", zorder=3)
        )
    axes.set_xlim(-0.56, machine.cols - 0.44)
    axes.set_ylim(machine.rows - 0.44, -0.56)
    axes.set_aspect("equal")
    axes.axis("off")
    axes.set_title(title, fontsize=11, color=INK, loc="left")
    axes.text(
        0,
        -0.02,
        legend + f"\n{note}" * bool(note),
        transform=axes.transAxes,
        va="top",
        fontsize=7.5,
        color=NODE_INK,
    )
    bar = axes.figure.colorbar(scale, ax=axes, fraction=0.035, pad=0.02)
    bar.set_label(load_label, fontsize=9, color=INK)
    bar.ax.tick_params(labelsize=8, colors=INK)
    bar.outline.set_visible(False)


def _counts(counts: Int32Array, placed: npt.NDArray[Any] | None) -> list[str]:
    """What each core's tile says: its slices, and how many of them are placed."""
    if placed is None:
        return [str(count) for count in counts]
    return [f"{a}/{b}" if b else "0" for a, b in zip(placed, counts, strict=True)]


def _share(load: npt.NDArray[Any]) -> Float64Array:
    top = load.max()
    return load / (top if top > 0 else 1.0)


def _bar(node: Int32Array, socket: Int32Array) -> str:
    return "#" if socket[0] != socket[1] else "|" if node[0] != node[1] else " "


def _rule(node: Int32Array, socket: Int32Array, width: int) -> str:
    """The line between two rows of tiles; empty without a border."""
    cells = []
    for col in range(node.shape[1]):
        if socket[0, col] != socket[1, col]:
            cells.append("=" * width)
        else:
            cells.append(("-" if node[0, col] != node[1, col] else " ") * width)
    if not "".join(cells).strip():
        return ""
    text = cells[0]
    for col in range(1, len(cells)):
        text += _bar(node[0, col - 1 : col + 1], socket[0, col - 1 : col + 1])
        text += cells[col]
    return text


def _luminance(colour: tuple[float, float, float, float]) -> float:
    red, green, blue, _ = colour
    return 0.299 * red + 0.587 * green + 0.114 * blue
