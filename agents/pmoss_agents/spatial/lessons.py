"""Lessons of made-up worlds: schedules that ran, and others that ran in the same instances.

On a GPU the worlds are held in its memory, where lessons are gathered; else their files are mapped.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from pmoss_agents.agent import Array
from pmoss_agents.pytorch import Tensor, torch
from pmoss_agents.spatial.planning.model import ELAPSED, QUERIES
from pmoss_agents.spatial.planning.topology import Topologies
from pmoss_datasets.spatial.world_sets import SHARD, WorldSet
from pmoss_datasets.spatial.worlds import INSTANCES, MAX_WORKERS, RECORD, SCHEDULES
from pmoss_env.types import COUNTERS

#: Counters that only a processor's monitoring unit counts.
_HARDWARE = np.array([counter.source == "hardware" for counter in COUNTERS])
#: Machines are filled up with workers to one of these numbers; those of a lesson have the same.
_ROOMS = np.array([64, 128, MAX_WORKERS])
#: Threads that copy files to a GPU.
_COPIERS = 4
#: What of a world is held on a GPU.
_HELD = ("counters", "columns", "throughput", "groups", "cache_mib")


class Choice(NamedTuple):
    """Which schedules of which worlds a lesson has, B of them.

    Attributes:
        numbers: (B,) of the worlds.
        instances: (B,) of each world.
        firsts: (B,) of the instance's schedules, the one that is read.
        missing: (B, H) whether a counter is missing.
    """

    numbers: Any
    instances: Any
    firsts: Any
    missing: Any


class Lesson(NamedTuple):
    """Schedules that ran in B instances, and n others of each.

    Attributes:
        topologies: of the B machines.
        before: (B, S, H) counters of the schedule that is read, million per second.
        incumbent: (B, S) the worker of each slice in it.
        columns: (B, n, S) the workers in the others.
        after: (B, n, S, 2) elapsed microseconds and queries in the others.
        throughput: (B, n) of the others, Mq/s.
    """

    topologies: Topologies
    before: Tensor
    incumbent: Tensor
    columns: Tensor
    after: Tensor
    throughput: Tensor


class Lessons:
    """Draws lessons from a set of worlds."""

    def __init__(
        self, worlds: WorldSet, missing: float, device: torch.device, *, held: bool | None = None
    ) -> None:
        """Takes a set.

        Args:
            worlds: the set; nothing is read yet.
            missing: share of the schedules read in which counters are missing.
            device: of the lessons.
            held: whether the worlds are held on the device; None: if it is a GPU.
        """
        self._worlds, self._missing, self._device = worlds, missing, device
        self._is_held = device.type != "cpu" if held is None else held
        self._arrays: dict[str, Tensor] = {}
        self._shapes = np.zeros((0, 2), dtype=np.int64)

    def choose(
        self, rng: np.random.Generator, worlds: range, size: int
    ) -> tuple[tuple[int, int], Choice]:
        """Chooses schedules of worlds that have as many slices, and about as many workers.

        Args:
            rng: source of randomness.
            worlds: numbers of those that may be chosen.
            size: B.

        Returns:
            The slices and workers of the lesson, and what of it to gather.
        """
        self._read(worlds.stop)
        shape = self._shapes[rng.integers(worlds.start, worlds.stop)]
        alike = np.flatnonzero((self._shapes[worlds.start : worlds.stop] == shape).all(1))
        numbers = worlds.start + rng.choice(alike, size)
        choice = Choice(
            numbers,
            rng.integers(INSTANCES, size=size),
            rng.integers(SCHEDULES, size=size),
            self._missed(rng, size),
        )
        return (int(shape[0]), int(shape[1])), choice

    def gather(self, shape: tuple[int, int], choice: Choice) -> Lesson:
        """Gathers what choose() chose, or the same as tensors on the device."""
        slices, workers = shape
        held = self._is_held
        record = self._from_device(choice) if held else self._from_files(choice)
        counters = record["counters"][:, :, :slices]
        columns = record["columns"][:, :, :slices].long()
        tensors = Choice(*(torch.as_tensor(part, device=self._device) for part in choice))
        rows = torch.arange(len(columns), device=self._device)
        places = torch.arange(1, SCHEDULES, device=self._device)
        others = (tensors.firsts.unsqueeze(1) + places) % SCHEDULES
        before = counters[rows, tensors.firsts]
        rows = rows.unsqueeze(1)
        after = counters[rows, others]
        return Lesson(
            Topologies(record["groups"][:, :, :workers], record["cache_mib"]),
            torch.where(tensors.missing.unsqueeze(1), 0.0, before),
            columns[rows.squeeze(1), tensors.firsts],
            columns[rows, others],
            torch.stack([after[..., ELAPSED], after[..., QUERIES]], -1),
            record["throughput"][rows, others],
        )

    def draw(self, rng: np.random.Generator, worlds: range, size: int) -> Lesson:
        """A lesson of what choose() chooses."""
        return self.gather(*self.choose(rng, worlds, size))

    def samples(self, count: int) -> Tensor:
        """(n, H) counters of slices in the first worlds."""
        records = [self._worlds[number] for number in range(count)]
        parts = [record["counters"][:, 0, : int(record["slices"])] for record in records]
        rows = np.concatenate([part.reshape(-1, part.shape[-1]) for part in parts])
        return torch.from_numpy(rows)

    def _from_files(self, choice: Choice) -> dict[str, Tensor]:
        """What of each world and its instance is in _HELD, (B, ...)."""
        pairs = list(zip(choice.numbers, choice.instances, strict=True))
        records = [(self._worlds[int(number)], instance) for number, instance in pairs]
        stacks = {}
        for name in _HELD:
            of_world = name in ("groups", "cache_mib")
            parts = [record[name] if of_world else record[name][i] for record, i in records]
            stacks[name] = torch.from_numpy(np.stack(parts)).to(self._device)
        return stacks

    def _from_device(self, choice: Choice) -> dict[str, Tensor]:
        numbers, instances = (torch.as_tensor(part, device=self._device) for part in choice[:2])
        return {
            name: array[numbers] if name in ("groups", "cache_mib") else array[numbers, instances]
            for name, array in self._arrays.items()
        }

    def _missed(self, rng: np.random.Generator, size: int) -> Array:
        """(B, H) whether a counter is missing: none, all of the hardware's, or some of these."""
        misses, every, share = rng.random((3, size, 1))
        some = rng.random((size, _HARDWARE.size)) < np.where(every < 0.5, 1.0, share)
        chosen: Array = _HARDWARE & some & (misses < self._missing)
        return chosen

    def _read(self, count: int) -> None:
        """Reads the files up to the one that has the last of the first worlds."""
        begin = len(self._shapes)
        if count <= begin:
            return
        stop = min(-(-count // SHARD) * SHARD, len(self._worlds))
        firsts = range(begin, stop, SHARD)
        if self._is_held and not self._arrays:
            for name in _HELD:
                array = torch.from_numpy(np.zeros(0, RECORD[name]))
                size = len(self._worlds), *array.shape[1:]
                self._arrays[name] = torch.empty(size, dtype=array.dtype, device=self._device)
        with ThreadPoolExecutor(_COPIERS) as pool:
            shapes = list(pool.map(self._read_file, firsts))
        self._shapes = np.concatenate([self._shapes, *shapes])

    def _read_file(self, first: int) -> Array:
        """(n, 2) slices and filled up workers of the worlds in a file."""
        records = self._worlds.records(first)
        if self._is_held:
            for name, array in self._arrays.items():
                part = torch.from_numpy(np.ascontiguousarray(records[name]))
                array[first : first + len(records)].copy_(part)
        rooms = _ROOMS[np.searchsorted(_ROOMS, records["workers"])]
        return np.stack([records["slices"], rooms], 1).astype(np.int64)
