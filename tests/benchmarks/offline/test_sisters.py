"""The offline benchmark in other environments than the first: it names none of them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pmoss_benchmarks.offline import SUITES, load_suite, run_offline
from pmoss_benchmarks.offline import plan as plans
from pmoss_benchmarks.offline.plan import cells_of, is_current, usable_agents
from pmoss_benchmarks.offline.tracks import load_track
from pmoss_datasets.evaluation import replay
from pmoss_datasets.recipes import tier
from pmoss_env.errors import UnknownNameError

pytest.importorskip("h5py")

PLAN = replace(SUITES["sisters"], seeds=1, episodes=1, random_schedules=3)
AGENTS = ["opponents", "linear-cost", "decision-tree", "threads-linucb", "threads-rule"]


@pytest.fixture
def summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, dict[str, Any]]:
    """A run on few data."""

    def shortened(name: str, domain: str) -> dict[str, Any]:
        return {**tier(name, domain), "episodes": 8, "reference_episodes": 0}

    monkeypatch.setattr(plans, "tier", shortened)
    out = tmp_path / "out"
    return out, run_offline(PLAN, out, tmp_path / "data", agents=AGENTS)


def test_threads_and_access_paths_have_cells_that_replay(summary: Any) -> None:
    pytest.importorskip("sklearn")
    out, found = summary
    policies = {track: set(of["overall"]) for track, of in found["tracks"].items()}
    assert {"stay", "rule", "threads-linucb", "threads-rule"} <= policies["threads"]
    assert {"oracle", "always-cpu", "linear-cost"} <= policies["access-path"]
    for track, task in zip(PLAN.tracks, PLAN.tasks, strict=True):
        assert replay(out / track / f"{task}.jsonl").mismatches == ()
        scores = found["tracks"][track]["tasks"][task]
        assert all(policy["illegal_actions"] == 0 for policy in scores.values())
    refused = [cell["agent"] for cell in found["cells"].values() if "refused" in cell]
    assert refused == ["decision-tree"]  # episodes do not tell what the other paths cost
    text = (out / "README.md").read_text()
    assert "of threads 0 is stay in each episode, 100 the best of rule, half" in text
    assert "| oracle | what each path will take |" in text
    again = run_offline(PLAN, out, out.parent / "none", agents=AGENTS)
    assert again["cells"].keys() == found["cells"].keys()


def test_agents_play_in_their_own_domain_alone() -> None:
    usable, _ = usable_agents(PLAN, AGENTS)
    cells = cells_of(PLAN, usable)
    by_track = {track: {c.agent for c in cells if c.track == track} for track in PLAN.tracks}
    assert "linear-cost" not in by_track["threads"] and "stay" not in by_track["access-path"]
    assert "random" in by_track["threads"] & by_track["access-path"]
    assert all(is_current(PLAN, cell.name) for cell in cells)
    # What a file names is never imported.
    assert is_current(PLAN, f"threads/{PLAN.tasks[0]}/nowhere:Class/0/12345678")
    with pytest.raises(UnknownNameError, match="agent"):
        usable_agents(PLAN, ["cql"])
    with pytest.raises(UnknownNameError, match="agent of access-path or threads"):
        usable_agents(PLAN, ["pmoss_agents.spatial.cql:CQL"])


def test_every_domain_has_a_suite_and_a_track_of_its_name() -> None:
    for name in ("threads", "access-path"):
        plan = load_suite(name)
        assert plan.tracks == (name,) and len(plan.tasks) >= 2
        assert load_track(name).domain == name
        assert cells_of(plan, ["random"])
    assert load_suite("core") is SUITES["core"]
    with pytest.raises(UnknownNameError, match="suite"):
        load_suite("thread")
