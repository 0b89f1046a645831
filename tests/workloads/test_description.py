from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pmoss_env.errors import DescriptionError, UnknownNameError
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
def test_the_core_workloads_are_ycsbs(
    letter: str, shares: dict[str, float], distribution: str
) -> None:
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
        (POINTS, {"keys": "sosd:osm"}, "keys = 'sosd:osm'"),
        (POINTS, {"distribution": "hot_range", "hot_fraction": 0.001}, r"hot_fraction = 0\.001"),
        (POINTS, {"distribution": "latest"}, "points in the plane have no age"),
        (POINTS, {"distribution": "zipf_ordered"}, "points in the plane have no order"),
        (POINTS, {"drift": 0.1}, r"drift = 0\.1"),
        (POINTS, {"value_bytes": 64}, "the index 'rtree' holds values of 8 bytes"),
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
