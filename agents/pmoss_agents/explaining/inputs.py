"""What a model of throughput reads: on which inputs its forecast rests, and how to take one away.

The counters of a slice, and their sums over the places that it shares, are inputs whose mean in
training is 0. So an input at 0 says nothing, and attribution begins there.

Attribution along a path: Sundararajan et al., Axiomatic Attribution for Deep Networks, ICML 2017.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from pmoss_agents.pytorch import Tensor, nn, torch
from pmoss_agents.spatial.planning.mixing import MixingModel
from pmoss_agents.spatial.planning.model import COSTS
from pmoss_agents.spatial.planning.topology import Topology
from pmoss_env.errors import UnknownNameError
from pmoss_env.types import COUNTER_NAMES

#: What one event costs: ratios of counters.
COST = "cost"
#: What is no counter: who shares what, the sizes of caches, and the times under the incumbent.
SHARING, CAPACITY, MEASURED = "topology", "capacity", "measured"
_OTHERS = (SHARING, CAPACITY, MEASURED)


def levels_of(model: MixingModel) -> tuple[str, ...]:
    """Over what the model sums counters; the slice itself is the first."""
    wide = [name for name in ("slice", *model.levels, "machine") if name in model.inputs]
    return tuple(wide)


def features_of(model: MixingModel) -> tuple[str, ...]:
    """What it reads at each level: counters, and what events cost."""
    return (*COUNTER_NAMES[: len(model.mean)], *[COST] * (len(COSTS) * (COST in model.inputs)))


def inputs_of(model: MixingModel) -> tuple[str, ...]:
    """All that without() can take away."""
    others = [name for name in _OTHERS if name in model.inputs]
    return (*levels_of(model), *dict.fromkeys(features_of(model)), *others)


def _sides(model: MixingModel) -> list[tuple[nn.Sequential, tuple[str, ...]]]:
    """Both layers that read counters, and their levels in the order of the inputs."""
    levels = levels_of(model)
    return [(model.of_slice, levels), (model.of_core, tuple(n for n in levels if n != "slice"))]


def _counted(layer: nn.Sequential, features: int, levels: int) -> Tensor:
    """(inputs,) 1 for counters and costs, 0 for what follows them."""
    first = layer[0]
    assert isinstance(first, nn.Linear)
    return (torch.arange(first.in_features) < features * levels).float()


@contextmanager
def without(
    models: Sequence[MixingModel], topology: Topology, name: str, capacity: Tensor
) -> Iterator[None]:
    """Takes an input away from models, which read and plan meanwhile.

    A level or a counter has its mean in training. Without the topology, cores share nothing.
    Without what was measured, all slices begin with the same time.

    Args:
        models: of an ensemble.
        topology: of the machine; it is changed meanwhile.
        name: one of inputs_of().
        capacity: (2,) logarithms of MiB, in place of the machine's caches.

    Raises:
        UnknownNameError: there is no such input.
    """
    if name not in inputs_of(models[0]):
        raise UnknownNameError("input of the model", name, inputs_of(models[0]))
    with ExitStack() as stack:
        if name == SHARING:
            alone, own = torch.eye(topology.workers), torch.arange(topology.workers)
            changes: dict[str, Any] = {"siblings": alone, "caches": alone, "nodes": alone}
            changes |= {"cache": own, "node": own, "first_of_cache": own, "first_of_node": own}
            changes["sizes"] = torch.zeros_like(topology.sizes)
            stack.enter_context(_changed(topology, changes))
        elif name == CAPACITY:
            usual = capacity.expand_as(topology.capacity)
            stack.enter_context(_changed(topology, {"capacity": usual}))
        for model in models:
            if name == MEASURED:
                kept = tuple(each for each in model.inputs if each != MEASURED)
                stack.enter_context(_changed(model, {"inputs": kept}))
            elif name not in _OTHERS:
                stack.enter_context(_at_mean(model, name))
        yield


@contextmanager
def _at_mean(model: MixingModel, name: str) -> Iterator[None]:
    """A level, or a counter at all levels, is 0."""
    features, handles = features_of(model), []
    for layer, levels in _sides(model):
        kept = 1.0 - _counted(layer, len(features), len(levels))
        read = [name not in (level, feature) for level in levels for feature in features]
        kept[: len(read)] = torch.tensor(read).float()

        def masked(_: nn.Module, given: tuple[Tensor], kept: Tensor = kept) -> tuple[Tensor]:
            return (given[0] * kept,)

        handles.append(layer.register_forward_pre_hook(masked))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _changed(thing: Any, changes: dict[str, Any]) -> Iterator[None]:
    before = {name: getattr(thing, name) for name in changes}
    try:
        for name, value in changes.items():
            setattr(thing, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(thing, name, value)


def attribute(
    model: MixingModel,
    topology: Topology,
    counters: Tensor,
    columns: Tensor,
    plan: Tensor,
    capacity: Tensor,
    steps: int,
) -> dict[str, dict[str, float]]:
    """On which inputs the gain rests that a model foresees of a plan.

    The gain is the difference of the logarithms of throughput, plan less incumbent. Along a
    straight path from inputs that say nothing to those that were read, each input is given its
    share.

    Args:
        model: that foresees.
        topology: of the machine.
        counters: (S, H) under the incumbent, million per second.
        columns: (S,) the worker of each slice in the incumbent.
        plan: (S,) likewise in the plan.
        capacity: see without().
        steps: of the path.

    Returns:
        By level and feature the sum, over slices and cores, of the absolute values of what they
        contribute. What is no counter stands under its own name, with one feature of that name. Of
        the topology only the sizes of caches and nodes are counted.
    """
    features, sides = features_of(model), _sides(model)
    asked = torch.stack([plan, columns]).unsqueeze(0)
    sums: dict[str, Tensor] = {}
    for step in range(steps):
        share = (step + 0.5) / steps
        ways: dict[str, tuple[Tensor, Tensor]] = {}
        with ExitStack() as stack:
            for name, whole, start in (
                ("sizes", topology.sizes, torch.zeros_like(topology.sizes)),
                ("capacity", topology.capacity, capacity.expand_as(topology.capacity)),
            ):
                point = (start + share * (whole - start)).requires_grad_()
                ways[name] = point, whole - start
                stack.enter_context(_changed(topology, {name: point}))
            for number, (layer, levels) in enumerate(sides):
                counted = _counted(layer, len(features), len(levels))

                def scaled(
                    _: nn.Module,
                    given: tuple[Tensor],
                    counted: Tensor = counted,
                    number: int = number,
                    ways: dict[str, tuple[Tensor, Tensor]] = ways,
                    share: float = share,
                ) -> tuple[Tensor]:
                    point = given[0] * (share * counted + 1 - counted)
                    if not point.requires_grad:
                        point.requires_grad_()
                    ways[f"side {number}"] = point, given[0].detach() * counted
                    return (point,)

                stack.callback(layer.register_forward_pre_hook(scaled).remove)
            reading = model.read(topology, counters.unsqueeze(0), columns.unsqueeze(0))
            whole, start = reading.base, reading.base.mean(1, keepdim=True).expand_as(reading.base)
            point = (start + share * (whole - start)).requires_grad_()
            ways[MEASURED] = point, whole - start
            total = model.predict(topology, replace(reading, base=point), asked).total[0]
            points = [point for point, _ in ways.values()]
            slopes = torch.autograd.grad(total[0] - total[1], points, allow_unused=True)
        for (name, (_, way)), slope in zip(ways.items(), slopes, strict=True):
            part = torch.zeros_like(way) if slope is None else slope * way / steps
            sums[name] = sums.get(name, torch.zeros_like(part)) + part
    result: dict[str, dict[str, float]] = {
        level: dict.fromkeys(features, 0.0) for level in levels_of(model)
    }
    for number, (_, levels) in enumerate(sides):
        of_inputs = sums[f"side {number}"].abs().flatten(0, -2).sum(0).tolist()
        for at, level in enumerate(levels):
            for place, feature in enumerate(features):
                result[level][feature] += of_inputs[at * len(features) + place]
    for kind, name in ((SHARING, "sizes"), (CAPACITY, "capacity"), (MEASURED, MEASURED)):
        result[kind] = {kind: float(sums[name].abs().sum())}
    return result
