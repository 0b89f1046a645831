"""Registers the environments with Gymnasium; ``import pmoss_env`` calls it."""

from __future__ import annotations

from typing import Any

import gymnasium

from pmoss_env.workloads import load_preset, preset_names

NAMESPACE = "pmoss"
ACCESS_PATH = f"{NAMESPACE}/AccessPath-v0"
CONTINUAL_SCHEDULING = f"{NAMESPACE}/ContinualScheduling-v1"
THREAD_SCHEDULING = f"{NAMESPACE}/ThreadScheduling-v0"
#: The machines of the standard suite; each of them meets every workload of the catalogue.
SUITE_MACHINES = ("skylake-x-8n", "milan-nps4")
#: Small enough to enumerate: 6 workers and 8 slices, with a single workload instance and optimum.
TOY: dict[str, Any] = {"machine": "toy", "workload": "ycsb-a", "slices": 8, "workload_seed": 1}

#: Tasks in which remote data are better or cannot be avoided.
CORE_NODE: dict[str, dict[str, Any]] = {
    # Co-tenants take the bandwidth of some nodes.
    f"{NAMESPACE}/starved-node-v1": {
        "machine": "skylake-x-8n",
        "interference": "starved_nodes",
        "actions": "core_node",
    },
    # On every socket, one of the two nodes has memory for 7 of 256 slices.
    f"{NAMESPACE}/full-node-v0": {
        "machine": "skylake-x-8n",
        "constraints": {"node_memory_gib": [0.02, 0.15] * 4},
        "actions": "core_node",
    },
    # Memory without cores beside starved DDR5.
    f"{NAMESPACE}/high-bandwidth-memory-v1": {
        "machine": "xeon-max-9480",
        "interference": "starved_nodes",
        "actions": "core_node",
    },
}

#: Versions of tasks whose episodes changed their bits, by workload; 0 for the others.
_VERSIONS = {"rtree-ranges-inserts": 1}

_SPATIAL: dict[str, Any] = {
    "entry_point": "pmoss_env.envs.spatial.env:SpatialSchedulingEnv",
    "vector_entry_point": "pmoss_env.envs.spatial.vector:SpatialVectorEnv",
}
#: The other environments.
_OTHERS: dict[str, dict[str, Any]] = {
    ACCESS_PATH: {"entry_point": "pmoss_env.envs.access_path.env:AccessPathEnv"},
    CONTINUAL_SCHEDULING: {
        "entry_point": "pmoss_env.envs.continual.env:ContinualSchedulingEnv",
        "vector_entry_point": "pmoss_env.envs.continual.vector:ContinualVectorEnv",
    },
    THREAD_SCHEDULING: {"entry_point": "pmoss_env.envs.threads.env:ThreadSchedulingEnv"},
}


def spatial_environments() -> dict[str, dict[str, Any]]:
    """Every id of spatial scheduling with its keyword arguments (plain JSON)."""
    return {
        f"{NAMESPACE}/SpatialScheduling-v0": {},
        f"{NAMESPACE}/toy-v0": TOY,
        **CORE_NODE,
        **{
            f"{NAMESPACE}/{machine}-{_task(workload)}-v{_VERSIONS.get(workload, 0)}": {
                "machine": machine,
                "index": load_preset(workload).index,
                "workload": workload,
            }
            for machine in SUITE_MACHINES
            for workload in preset_names()
        },
    }


def _task(workload: str) -> str:
    """Index and workload in one name, e.g. "btree-ycsb-a" or "rtree-ranges"."""
    index = load_preset(workload).index
    return f"{index}-{workload.removeprefix(f'{index}-')}"


def environments() -> dict[str, dict[str, Any]]:
    """Every registered id with its keyword arguments (plain JSON)."""
    return {**spatial_environments(), **{name: {} for name in _OTHERS}}


def register_environments() -> None:
    """Makes ``gymnasium.make("pmoss/...")`` work. Safe to repeat."""
    for name, kwargs in environments().items():
        if name not in gymnasium.registry:
            entry_points = _OTHERS.get(name, _SPATIAL)
            # No max_episode_steps: every episode of these environments ends by itself.
            gymnasium.register(id=name, kwargs=dict(kwargs), **entry_points)
