"""What the host offers, seen from Python. Any counter may be missing here."""

from pathlib import Path

import pytest

from pmoss_env import _native


def write(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text + "\n")


def test_every_event_counts_or_says_why_not() -> None:
    events = _native.probe_events()
    names = [event["name"] for event in events]
    assert len(set(names)) == len(names)
    assert names[:2] == ["cycles", "instructions"]
    first = names.index("task_clock")  # the PMU's events come first
    assert names[first : first + 3] == ["task_clock", "context_switches", "page_faults"]
    for event in events:
        assert event["source"] in ("hardware", "software", "none")
        assert bool(event["reason"]) == (event["source"] == "none")
        assert event["unit"] in ("count", "cycles", "ns")


def test_topology_of_a_made_up_machine(tmp_path: Path) -> None:
    cpu, node = "sys/devices/system/cpu", "sys/devices/system/node"
    write(tmp_path, f"{cpu}/online", "0-3")
    for i in range(4):
        write(tmp_path, f"{cpu}/cpu{i}/topology/physical_package_id", str(i // 2))
        write(
            tmp_path,
            f"{cpu}/cpu{i}/topology/thread_siblings_list",
            f"{i // 2 * 2}-{i // 2 * 2 + 1}",
        )
    for i in range(2):
        write(tmp_path, f"{node}/node{i}/cpulist", f"{2 * i}-{2 * i + 1}")
        write(tmp_path, f"{node}/node{i}/distance", "10 21" if i == 0 else "21 10")
    topology = _native.host_topology(str(tmp_path))
    assert [c["node"] for c in topology["cpus"]] == [0, 0, 1, 1]
    assert [c["package"] for c in topology["cpus"]] == [0, 0, 1, 1]
    assert topology["cpus"][3]["siblings"] == [2, 3]
    assert [n["distances"] for n in topology["nodes"]] == [[10, 21], [21, 10]]


def test_a_folder_that_is_no_host_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="no online CPU"):
        _native.host_topology(str(tmp_path))


def test_this_host() -> None:
    topology = _native.host_topology()
    online = {cpu["id"] for cpu in topology["cpus"]}
    assert topology["allowed_cpus"]
    assert set(topology["allowed_cpus"]) <= online
    facts = _native.host_facts()
    assert facts["kernel"] != "unknown"
    assert all(isinstance(value, str) and value for value in facts.values())
