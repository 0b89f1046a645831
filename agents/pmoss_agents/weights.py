"""Networks and optimisers of torch as plain arrays, and back: what checkpoints hold of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from pmoss_agents.agent import Array
from pmoss_agents.pytorch import Tensor, nn, torch
from pmoss_env.errors import CheckpointError

#: Networks and optimisers, by what the names of their arrays begin with in a checkpoint.
Parts: TypeAlias = Mapping[str, nn.Module | torch.optim.Optimizer]


class torch_threads:
    """Sets torch's number of threads for a while."""

    def __init__(self, threads: int) -> None:
        self._threads = threads

    def __enter__(self) -> None:
        self._before = torch.get_num_threads()
        if self._before != self._threads:
            torch.set_num_threads(self._threads)

    def __exit__(self, *_: object) -> None:
        if self._before != self._threads:
            torch.set_num_threads(self._before)


def arrays_of(parts: Parts) -> dict[str, Array]:
    """Parameters and buffers of networks, and moments of optimisers, by name, copied."""
    arrays: dict[str, Array] = {}
    for prefix, part in parts.items():
        if isinstance(part, nn.Module):
            values = part.state_dict().items()
        else:
            moments = part.state_dict()["state"]
            values = {f"{i}/{k}": v for i, held in moments.items() for k, v in held.items()}.items()
        arrays |= {prefix + name: value.cpu().numpy().copy() for name, value in values}
    return arrays


def load_arrays(parts: Parts, arrays: Mapping[str, Array]) -> None:
    """Takes what arrays_of() gave, for parts of the same shapes; other arrays are left alone.

    Raises:
        CheckpointError: an array is missing, too many or of another shape.
    """
    for prefix, part in parts.items():
        given = {
            name.removeprefix(prefix): torch.from_numpy(array.copy())
            for name, array in arrays.items()
            if name.startswith(prefix)
        }
        if isinstance(part, nn.Module):
            _check_shapes(part.state_dict(), given)
            part.load_state_dict(given)
            continue
        moments: dict[int, dict[str, Tensor]] = {}
        for name, value in given.items():
            index, key = name.split("/")
            moments.setdefault(int(index), {})[key] = value
        part.load_state_dict({**part.state_dict(), "state": moments})


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Sets an optimiser's learning rate."""
    for group in optimiser.param_groups:
        group["lr"] = rate


def _check_shapes(network: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> None:
    for name in sorted(set(network) | set(given)):
        mine = tuple(network[name].shape) if name in network else "absent"
        theirs = tuple(given[name].shape) if name in given else "absent"
        if mine != theirs:
            raise CheckpointError(
                f"weights {name}: {theirs} in the file, {mine} by the config and task"
            )
