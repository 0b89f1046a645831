import re
from dataclasses import replace
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from pmoss_env import _native
from pmoss_env.backends import make_backend
from pmoss_env.backends.native_forms import native_workload
from pmoss_env.errors import DescriptionError
from pmoss_env.types import Instance
from pmoss_env.workloads import load_workload
from pmoss_env.workloads.catalog import PRESETS


def write_keys(path: Path, keys: list[int] | np.ndarray, count: int | None = None) -> str:
    words = np.asarray(keys, dtype=np.uint64)
    count = words.size if count is None else count
    np.concatenate([np.array([count], dtype=np.uint64), words]).tofile(path)
    return f"sosd:{path}"


def slices_of(keys: np.ndarray, slices: int) -> np.ndarray:
    counts = np.bincount(_native.slice_of_key(keys, slices), minlength=slices)
    return counts / keys.size


def test_keys_of_a_file_keep_their_order_and_fill_the_range(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    keys = np.unique(rng.integers(10**6, 10**9, 50_000, dtype=np.uint64))
    name = write_keys(tmp_path / "keys", np.sort(np.concatenate([keys, keys[:10]])))
    workload = replace(load_workload("lookups"), keys=name, records=40_000)
    spec = native_workload(workload, 1)
    assert _native.SortedKeyFile(name.removeprefix("sosd:")).size == keys.size
    all_records = spec.keys_of_records(np.arange(keys.size, dtype=np.uint64))
    stretched = np.sort(all_records)
    assert stretched[0] == 0
    assert stretched[-1] >= 2**63
    scale = (stretched[1:] // (keys[1:] - keys[0])).astype(np.uint64)
    assert np.unique(scale).size == 1
    counted = slices_of(all_records, 16)
    assert np.abs(counted - np.array(spec.record_shares(16))).max() < 1e-12
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
    rng = np.random.default_rng(1)
    keys = np.sort(rng.integers(0, 2**50, 30_000, dtype=np.uint64))
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
