"""Every format that is read: sound files of it, and what reads them."""

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np

import pmoss_agents
from pmoss_agents.configs import CONFIGS
from pmoss_benchmarks.validation.targets import FOLDER, read_targets
from pmoss_datasets import Recipe, collect, open_dataset
from pmoss_datasets.evaluation import evaluate, read_results, write_results
from pmoss_datasets.original import import_folder
from pmoss_datasets.policies import SchedulePolicy
from pmoss_env.backends import make_backend
from pmoss_env.backends.native_forms import native_workload
from pmoss_env.machines import Machine, load_machine
from pmoss_env.machines.catalog import PRESETS as MACHINES
from pmoss_env.machines.importing import import_machine, read_lstopo
from pmoss_env.result_files import ResultFile
from pmoss_env.schedule_files import read_schedule
from pmoss_env.types import Instance
from pmoss_env.workloads import Workload, load_workload
from pmoss_env.workloads.catalog import PRESETS as WORKLOADS
from tests.datasets.test_original import make_original
from tests.machines.conftest import _lstopo


@dataclass(frozen=True)
class Kind:
    """A format.

    Attributes:
        file: the one that is mutated, below the folder of the sound files.
        read: reads the folder; what it gives must not change unless it may.
        text: "json", "jsonl", "toml", "lines" or "" for bytes.
        sealed: a checksum covers it, so that what is accepted must be what was written.
        after: makes the mutated folder look whole, as a hostile writer would.
    """

    file: str
    read: Callable[[Path], Any]
    text: str = ""
    sealed: bool = False
    after: Callable[[Path], None] = lambda folder: None


def _arrays(folder: Path) -> str:
    """A digest of every array of a dataset, each read and checked."""
    dataset = open_dataset(folder)
    dataset.verify()
    digest = hashlib.sha256()
    for field in dataset.metadata.fields:
        digest.update(np.ascontiguousarray(dataset.column(field.name)).tobytes())
    return digest.hexdigest()


def _believed(folder: Path) -> None:
    """Lets the checksum of the metadata fit."""
    text = (folder / "metadata.json").read_bytes()
    with h5py.File(folder / "data.hdf5", "a") as file:
        file.attrs["metadata_sha256"] = hashlib.sha256(text).hexdigest()


def _agent(path: Path) -> str:
    arrays, _ = pmoss_agents.load(path)._state()
    parts = [name.encode() + arrays[name].tobytes() for name in sorted(arrays)]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def _modelled(machine: Machine, workload: Workload) -> float:
    """What the model says of a schedule: a finite number, or the description is no good."""
    backend = make_backend("analytic", machine=machine, workload=workload, slices=4)
    backend.set_instance(Instance(1))
    workers = machine.workers[np.arange(4) % machine.workers.size]
    throughput = backend.measure(machine.local_schedule(workers), seed=1).throughput
    if not np.isfinite(throughput) or throughput < 0:
        raise AssertionError(f"the model gives {throughput}")
    return 0.0


def _imported(folder: Path) -> None:
    import_machine(read_lstopo(folder / "server.xml"), "server")


def _rows(folder: Path) -> list[Any]:
    with ResultFile(folder / "rows.jsonl", {"kind": "x"}, ["a"]) as file:
        return sorted(row["b"] for row in file.rows.values())


KINDS: dict[str, Kind] = {
    "dataset metadata": Kind("data/metadata.json", lambda f: _arrays(f), "json", after=_believed),
    "dataset arrays": Kind("data/data.hdf5", lambda f: _arrays(f), sealed=True),
    "machine": Kind(
        "machine/machine.toml",
        lambda f: _modelled(Machine.from_toml(f / "machine.toml"), load_workload("lookups")),
        "toml",
    ),
    "workload": Kind(
        "workload/workload.toml",
        lambda f: _modelled(load_machine("toy"), Workload.from_toml(f / "workload.toml")),
        "toml",
    ),
    "recipe": Kind("recipe/recipe.toml", lambda f: Recipe.from_toml(f / "recipe.toml").id, "toml"),
    "config": Kind(
        "config/config.toml",
        lambda f: pmoss_agents.make("decision-transformer", config_file=f / "config.toml"),
        "toml",
    ),
    "targets": Kind("targets/targets.toml", lambda f: read_targets(f), "toml"),
    "results": Kind("results/results.jsonl", lambda f: read_results(f / "results.jsonl"), "jsonl"),
    "kept rows": Kind("rows/rows.jsonl", _rows, "jsonl"),
    "schedule": Kind(
        "schedule/schedule.json",
        lambda f: read_schedule(f / "schedule.json", load_machine("toy")),
        "json",
    ),
    "lstopo": Kind("server/server.xml", _imported, "lines"),
    "checkpoint": Kind(
        "agent/agent.safetensors", lambda f: _agent(f / "agent.safetensors"), sealed=True
    ),
    "original machine": Kind("original/machines/amd_x.cfg", lambda f: _original(f), "lines"),
    "original run": Kind("original/kb_b__/1/data_view.txt", lambda f: _original(f), "lines"),
    "original schedule": Kind(
        "original/schedules/amd_x/c_5_256.txt", lambda f: _original(f), "lines"
    ),
    "keys": Kind(
        "keys/keys",
        lambda f: native_workload(
            replace(load_workload("lookups"), keys=f"sosd:{f / 'keys'}", records=1000)
        ),
    ),
    "points": Kind(
        "points/points.npy",
        lambda f: native_workload(load_workload(f"points:{f / 'points.npy'}")).cell_shares(4)[0],
    ),
}


def _original(folder: Path) -> None:
    import_folder(_root(folder), "amd_x")


def _root(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if (path / "machines").is_dir())


def make(folder: Path) -> None:
    """Writes a sound file of every kind."""
    env = {"machine": "toy", "slices": 4}
    collect(Recipe(env=env, episodes=3, reference_episodes=0), folder / "data")
    for name in ("machine", "workload", "recipe", "config", "targets", "results", "rows"):
        (folder / name).mkdir()
    for name in ("schedule", "server", "agent", "keys", "points"):
        (folder / name).mkdir()
    shutil.copy(MACHINES / "toy.toml", folder / "machine/machine.toml")
    shutil.copy(WORKLOADS / "ycsb-a.toml", folder / "workload/workload.toml")
    (folder / "recipe/recipe.toml").write_text(
        'episodes = 5\nseed = 3\ntier = "mixed"\n[env]\nmachine = "toy"\nslices = 4\n'
        '[[behaviours]]\npolicy = "random"\nweight = 0.5\n'
        '[[behaviours]]\npolicy = "local-search"\nbudget = 20\nepsilon = 0.1\n'
    )
    shutil.copy(CONFIGS / "decision-transformer-demo.toml", folder / "config/config.toml")
    shutil.copy(sorted(FOLDER.glob("*.toml"))[0], folder / "targets/targets.toml")
    few = evaluate(env, {"lpt": SchedulePolicy("lpt")}, [101], 2, 10, 2)
    write_results(folder / "results/results.jsonl", few)
    with ResultFile(folder / "rows/rows.jsonl", {"kind": "x"}, ["a"]) as file:
        for number in range(5):
            file.append({"a": number, "b": number * 7})
    plain = {"format": "pmoss-schedule", "cores": load_machine("toy").workers[:4].tolist()}
    (folder / "schedule/schedule.json").write_text(json.dumps(plain))
    (folder / "server/server.xml").write_text(_lstopo())
    pmoss_agents.make("threads-linucb").save(folder / "agent/agent.safetensors")
    make_original(folder / "original", "amd_x")
    keys = np.arange(5000, dtype="<u8") * 977
    count = np.array([keys.size], dtype="<u8")
    (folder / "keys/keys").write_bytes(count.tobytes() + keys.tobytes())
    np.save(folder / "points/points.npy", np.random.default_rng(0).normal(size=(2000, 2)))
