"""Networks and optimisers of torch as plain arrays, and back: what checkpoints hold of them."""

from __future__ import annotations

from collections.abc import Mapping

from pmoss_agents.agent import Array
from pmoss_agents.pytorch import Tensor, nn, torch
from pmoss_env.errors import CheckpointError


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


def weights_of(network: nn.Module, prefix: str) -> dict[str, Array]:
    """A network's parameters and buffers by name, copied."""
    return {
        prefix + name: value.cpu().numpy().copy() for name, value in network.state_dict().items()
    }


def load_weights(network: nn.Module, arrays: Mapping[str, Array], prefix: str) -> None:
    """Takes what weights_of() gave, for a network of the same shapes.

    Raises:
        CheckpointError: an array is missing, too many or of another shape; the network is as it
            was.
    """
    own = network.state_dict()
    given = {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }
    for name in sorted(set(own) | set(given)):
        mine = tuple(own[name].shape) if name in own else "absent"
        theirs = tuple(given[name].shape) if name in given else "absent"
        if mine != theirs:
            raise CheckpointError(
                f"weights {name}: {theirs} in the file, {mine} by the config and task"
            )
    network.load_state_dict({name: torch.from_numpy(array) for name, array in given.items()})


def moments_of(optimiser: torch.optim.Optimizer, prefix: str) -> dict[str, Array]:
    """What an optimiser has gathered of each parameter, by the parameter's number, copied."""
    return {
        f"{prefix}{i}/{key}": value.cpu().numpy().copy()
        for i, moments in optimiser.state_dict()["state"].items()
        for key, value in moments.items()
    }


def load_moments(
    optimiser: torch.optim.Optimizer, arrays: Mapping[str, Array], prefix: str
) -> None:
    """Takes what moments_of() gave, for an optimiser of the same parameters."""
    moments: dict[int, dict[str, Tensor]] = {}
    for name, array in arrays.items():
        if name.startswith(prefix):
            index, key = name.removeprefix(prefix).split("/")
            moments.setdefault(int(index), {})[key] = torch.from_numpy(array.copy())
    state = optimiser.state_dict()
    state["state"] = moments
    optimiser.load_state_dict(state)
