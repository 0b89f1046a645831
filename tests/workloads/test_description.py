"""Workload files, and the key spaces that they draw from."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from pmoss_env import _native
from pmoss_env.backends import Backend, make_backend
from pmoss_env.backends.native_forms import native_workload
from pmoss_env.errors import DescriptionError, UnknownNameError
from pmoss_env.types import HardwareSnapshot, Instance
from pmoss_env.workloads import load_workload, workload_names
from pmoss_env.workloads.catalog import PRESETS
from pmoss_env.workloads.description import FRACTIONS

POINTS = "rtree-ranges"


@pytest.mark.parametrize("name", workload_names())
def test_every_preset_loads_and_names_itself(name: str) -> None:
    assert load_workload(name).name == name


def test_ycsb_a_is_the_papers() -> None:
    workload = load_workload("ycsb-a")
    assert (workload.lookup, workload.insert) == (0.5, 0.5)
    assert (workload.distribution, workload.theta) == ("zipf", 0.99)
    assert workload.records == 30_000_000


@pytest.mark.parametrize(
    ("letter", "shares", "distribution"),
    [
        ("a", {"lookup": 0.5, "update": 0.5}, "zipf"),
        ("b", {"lookup": 0.95, "update": 0.05}, "zipf"),
        ("c", {"lookup": 1.0}, "zipf"),
        ("d", {"lookup": 0.95, "insert": 0.05}, "latest"),
        ("e", {"scan": 0.95, "insert": 0.05}, "zipf"),
        ("f", {"lookup": 0.5, "read_modify_write": 0.5}, "zipf"),
    ],
)
def test_the_core_workloads_are_ycsbs(letter, shares, distribution):
    workload = load_workload(f"ycsb-core-{letter}")
    assert {name: share for name in FRACTIONS if (share := getattr(workload, name))} == shares
    assert (workload.distribution, workload.theta) == (distribution, 0.99)
    assert workload.max_scan_length == 100


def test_unknown_workload_is_named() -> None:
    with pytest.raises(UnknownNameError, match=r"'ycsb'.*Did you mean 'ycsb-a'"):
        load_workload("ycsb")


@pytest.mark.parametrize(
    ("name", "change", "complaint"),
    [
        ("ycsb-a", {"lookup": 0.9}, "must sum to 1"),
        ("ycsb-a", {"lookup": -0.5, "insert": 1.5}, r"must lie in \[0, 1\]"),
        ("ycsb-a", {"distribution": "normal"}, "distribution = 'normal'"),
        ("ycsb-a", {"theta": 0.0}, "theta = 0.0"),
        ("ycsb-a", {"records": 0}, "records = 0"),
        ("ycsb-a", {"max_scan_length": 0}, "max_scan_length = 0"),
        ("ycsb-a", {"keys": "dense"}, "keys = 'dense'"),
        ("ycsb-a", {"value_bytes": 0}, "value_bytes = 0: must be a multiple of 8"),
        ("ycsb-a", {"value_bytes": 12}, "value_bytes = 12: must be a multiple of 8"),
        ("ycsb-a", {"value_bytes": 1032}, "value_bytes = 1032: must be a multiple of 8 up to 1024"),
        ("ycsb-a", {"hot_share": 1.5}, "hot_share = 1.5"),
        ("ycsb-a", {"hot_fraction": 0.0}, "hot_fraction = 0.0"),
        ("ycsb-a", {"drift": -1.0}, r"drift = -1\.0"),
        # Points have no order, no age and cannot move.
        (POINTS, {"index": "trie"}, "index = 'trie'"),
        (POINTS, {"scan": 0.5, "update": 0.5}, r"update = 0\.5: must be 0"),
        (POINTS, {"scan": 0.0, "read_modify_write": 1.0}, "read_modify_write = 1"),
        (POINTS, {"keys": "sosd:osm"}, "keys = 'sosd:osm': of points must be one of"),
        ("ycsb-a", {"keys": "points:osm"}, "'btree' holds no points; use index = 'rtree'"),
        (POINTS, {"distribution": "hot_range", "hot_fraction": 0.001}, r"hot_fraction = 0\.001"),
        (POINTS, {"distribution": "latest"}, "points in the plane have no age"),
        (POINTS, {"distribution": "zipf_ordered"}, "points in the plane have no order"),
        (POINTS, {"drift": 0.1}, r"drift = 0\.1"),
    ],
)
def test_impossible_values_are_refused(name: str, change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(DescriptionError, match=complaint):
        replace(load_workload(name), **change)


def test_a_bad_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    with pytest.raises(DescriptionError, match=r"mine.toml: cannot be read"):
        load_workload(str(path))
    path.write_text('name = "x"\nspeed = 3\n')
    with pytest.raises(DescriptionError, match=r"mine.toml: speed: unknown"):
        load_workload(str(path))
    path.write_text('name = "x"\n')
    with pytest.raises(DescriptionError, match=r"mine.toml: description: is missing"):
        load_workload(str(path))
    preset = (PRESETS / "ycsb-a.toml").read_text(encoding="utf-8")
    path.write_text(preset.replace('name = "ycsb-a"', "name = 3"), encoding="utf-8")
    with pytest.raises(DescriptionError, match=r"mine.toml: name = 3: must be a text"):
        load_workload(str(path))


CORE = [f"ycsb-core-{letter}" for letter in "abcdef"]
SMALL = {
    "analytic": {"machine": "toy", "slices": 8},
    "simulated": {"machine": "toy", "slices": 8, "records": 50_000, "queries": 5_000},
    "hardware": {
        **{"machine": "host", "slices": 8, "records": 20_000},
        **{"seconds": 0.1, "warmup_seconds": 0.02, "own_process": False},
    },
}


def measured(backend: Backend) -> HardwareSnapshot:
    workers = np.resize(backend.machine.workers, backend.slices)
    try:
        return backend.measure(backend.machine.local_schedule(workers), seed=0)
    finally:
        backend.close()


@pytest.mark.parametrize("name", CORE)
@pytest.mark.parametrize("backend", SMALL)
def test_every_backend_serves_them(name: str, backend: str) -> None:
    snapshot = measured(make_backend(backend, workload=name, **SMALL[backend]))
    assert snapshot.throughput > 0
    if backend == "hardware":
        assert snapshot.latency_p99_us <= snapshot.latency_p999_us <= snapshot.latency_max_us
    else:
        assert np.isnan(snapshot.latency_max_us)


def drawn(name: str, count: int = 30_000) -> dict[str, np.ndarray]:
    spec = native_workload(replace(load_workload(name), records=10_000))
    return _native.OperationGenerator(spec, 1).draw(count)


def test_a_and_b_write_no_new_key() -> None:
    for name in ("ycsb-core-a", "ycsb-core-b", "ycsb-core-f"):
        spec = native_workload(replace(load_workload(name), records=10_000))
        assert np.isin(drawn(name)["key"], spec.keys_of_records(np.arange(10_000))).all()


def test_f_reads_each_record_before_it_writes_it() -> None:
    operations = drawn("ycsb-core-f")
    updates = np.flatnonzero(operations["kind"] == 3)
    assert updates.size == pytest.approx(10_000, rel=0.05)
    assert (operations["kind"][updates - 1] == 0).all()
    assert (operations["key"][updates - 1] == operations["key"][updates]).all()


def test_the_model_serves_a_read_modify_write_as_two_operations() -> None:
    mixes = {"f": {}, "two": {"lookup": 2 / 3, "update": 1 / 3, "read_modify_write": 0.0}}
    rates = {}
    for name, shares in mixes.items():
        workload = replace(load_workload("ycsb-core-f"), **shares)
        rates[name] = measured(make_backend("analytic", workload=workload, **SMALL["analytic"]))
    assert rates["f"].throughput == pytest.approx(rates["two"].throughput, rel=1e-12)


def write_keys(path: Path, keys: list[int] | np.ndarray, count: int | None = None) -> str:
    words = np.asarray(keys, dtype=np.uint64)
    count = words.size if count is None else count
    np.concatenate([np.array([count], dtype=np.uint64), words]).tofile(path)
    return f"sosd:{path}"


def slices_of(keys: np.ndarray, slices: int) -> np.ndarray:
    return np.bincount(_native.slice_of_key(keys, slices), minlength=slices) / keys.size


def test_keys_of_a_file_keep_their_order_and_fill_the_range(tmp_path: Path) -> None:
    keys = np.unique(np.random.default_rng(0).integers(10**6, 10**9, 50_000, dtype=np.uint64))
    name = write_keys(tmp_path / "keys", np.sort(np.concatenate([keys, keys[:10]])))
    spec = native_workload(replace(load_workload("lookups"), keys=name, records=40_000), 1)
    assert _native.SortedKeyFile(name.removeprefix("sosd:")).size == keys.size
    all_records = spec.keys_of_records(np.arange(keys.size, dtype=np.uint64))
    stretched = np.sort(all_records)
    assert stretched[0] == 0 and stretched[-1] >= 2**63
    assert np.unique((stretched[1:] // (keys[1:] - keys[0])).astype(np.uint64)).size == 1
    assert np.abs(slices_of(all_records, 16) - np.array(spec.record_shares(16))).max() < 1e-12
    drawn = _native.OperationGenerator(spec, 0).draw(1000)["key"]
    assert np.isin(drawn, all_records[:40_000]).all()


@pytest.mark.parametrize(
    ("keys", "count", "complaint"),
    [
        ([3, 2, 5], None, "key 1 is 2, below the one before it"),
        ([1, 2, 3], 4, "announces 4 keys but holds 3"),
        ([7, 7], None, "at least 2 different keys"),
        ([1, 2], None, "records is 40000; it must be at most the 2"),
    ],
)
def test_bad_key_files_are_refused(tmp_path, keys, count, complaint):
    name = write_keys(tmp_path / "bad", keys, count)
    workload = replace(load_workload("lookups"), keys=name, records=40_000)
    with pytest.raises(DescriptionError, match=complaint):
        native_workload(workload)


def test_truncated_and_missing_key_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "cut").write_bytes(b"\x01\x00\x00")
    for path, complaint in (
        (tmp_path / "cut", "3 bytes"),
        (tmp_path / "none", "none: cannot be read: No such file"),
    ):
        with pytest.raises(DescriptionError, match=complaint):
            native_workload(replace(load_workload("lookups"), keys=f"sosd:{path}"))


def test_a_file_of_keys_is_a_workload(tmp_path: Path) -> None:
    keys = np.sort(np.random.default_rng(1).integers(0, 2**50, 30_000, dtype=np.uint64))
    name = write_keys(tmp_path / "made_up_30K_uint64", keys)
    workload = load_workload(name)
    assert workload.name == "sosd-made_up_30K_uint64" and workload.lookup == 1.0
    assert workload.records == np.unique(keys).size
    backend = make_backend("analytic", machine="toy", workload=name, slices=16)
    workers = backend.machine.workers
    schedule = backend.machine.local_schedule(workers[np.arange(16) % workers.size])
    backend.set_instance(Instance(5))
    assert backend.measure(schedule, seed=0).throughput > 0.0
    # All that is wrong with a file is one error that names it.
    (tmp_path / "cut").write_bytes((tmp_path / "made_up_30K_uint64").read_bytes()[:-3])
    np.arange(30_001, dtype=np.uint32).tofile(tmp_path / "of_32_bits")
    write_keys(tmp_path / "unsorted", keys[::-1])
    write_keys(tmp_path / "short", keys[:-1], 30_000)
    for bad in ("cut", "of_32_bits", "unsorted", "short", "none", "."):
        with pytest.raises(DescriptionError, match=re.escape(str(tmp_path / bad))):
            load_workload(f"sosd:{tmp_path / bad}")


def test_slices_without_records_are_played_like_all_others(tmp_path: Path) -> None:
    name = write_keys(tmp_path / "keys", [*range(50_000), 10**9])
    text = (PRESETS / "lookups.toml").read_text().replace("30000000", "50001")
    (tmp_path / "gaps.toml").write_text(f'{text}keys = "{name}"\n')
    env = gymnasium.make(
        "pmoss/toy-v0", workload=str(tmp_path / "gaps.toml"), disable_env_checker=True
    )
    _, info = env.reset(seed=0)
    done = False
    while not done:
        action = int(np.flatnonzero(info["action_mask"])[0])
        _, reward, terminated, truncated, info = env.step(action)
        assert np.isfinite(reward)
        done = terminated or truncated


@pytest.mark.parametrize("name", ["lookups-zipf-ordered", "scans-zipf-ordered"])
def test_backends_agree_on_the_hot_slices_of_zipf_in_order(name: str) -> None:
    workload = replace(load_workload(name), records=200_000, zipf_items=200_000)
    shares = []
    for backend, options in (
        ("analytic", {}),
        ("simulated", {"queries": 100_000, "line_sampling": 4}),
        ("hardware", {"seconds": 0.3}),
    ):
        subject = make_backend(
            backend,
            machine="host" if backend == "hardware" else "toy",
            workload=workload,
            slices=16,
            **options,
        )
        subject.set_instance(Instance(5))
        workers = subject.machine.workers
        schedule = subject.machine.local_schedule(workers[np.arange(16) % workers.size])
        throughput = subject.measure(schedule, seed=1).slice_throughput
        subject.close()
        shares.append(throughput / throughput.sum())
    for other in shares[1:]:
        assert np.abs(other - shares[0]).max() < 0.03
