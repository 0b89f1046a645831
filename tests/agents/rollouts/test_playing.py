"""Policies that place slices, episode by episode, and go on after an interruption."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pmoss_agents.policies import named_policies
from pmoss_agents.rollouts import roll_out
from pmoss_datasets.continual.domain import CONTINUAL
from pmoss_datasets.policies import Measured, SchedulePolicy
from pmoss_datasets.spatial.domain import SPATIAL
from pmoss_env import measuring
from pmoss_env.backends.hardware import HardwareBackend
from pmoss_env.backends.kernel_settings import switched, why_no_balancing
from pmoss_env.baselines import make_baseline
from pmoss_env.envs.spatial import session
from pmoss_env.envs.spatial.env import SpatialSchedulingEnv
from pmoss_env.errors import CheckpointError, DatasetError, UnknownNameError
from pmoss_env.machines import load_machine
from pmoss_env.measuring import BALANCING
from pmoss_env.types import COUNTER_INDEX, HardwareSnapshot, Schedule

TOY = {"machine": "toy", "slices": 8, "backend": "analytic"}
POLICIES = {name: SchedulePolicy(make_baseline(name)) for name in ("lpt", "spread")}


def test_an_interrupted_run_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"

    class StopError(Exception):
        pass

    def stop(row: dict[str, Any]) -> None:
        if row["episode"] == 1:
            raise StopError

    with pytest.raises(StopError):
        roll_out(TOY, POLICIES, episodes=3, seed=3, out=out, on_row=stop)
    kept = out.read_bytes()
    rows = roll_out(TOY, POLICIES, episodes=3, seed=3, out=out)
    assert out.read_bytes().startswith(kept)
    for row, again in zip(rows, roll_out(TOY, POLICIES, episodes=3, seed=3), strict=True):
        assert {**row, "policy_seconds": 0} == {**again, "policy_seconds": 0}
    with pytest.raises(DatasetError, match="seed was 3 and is 4"):
        roll_out(TOY, POLICIES, episodes=3, seed=4, out=out)


def test_rows_of_a_policy_that_may_be_another_are_not_taken(tmp_path: Path) -> None:
    class Asks:
        def reset(self) -> None:
            pass

        def plan(self, context: Any, order: Any) -> None:
            context.measurements.throughput(context.incumbent)

        def act(self, observation: Any, action_mask: Any) -> int:
            return int(action_mask.argmax())

    out, policies = tmp_path / "rows.jsonl", {"mine": Measured(Asks(), 10)}
    (row,) = roll_out(TOY, policies, episodes=1, seed=3, out=out)
    assert row["measurements"] == 1 and "evaluations" not in row
    with pytest.raises(DatasetError, match="mine, which may be another policy by now: say by made"):
        roll_out(TOY, policies, episodes=1, seed=3, out=out)
    with pytest.raises(DatasetError, match="files was null and is"):
        roll_out(TOY, policies, episodes=1, seed=3, out=out, made_of={"files": {"mine.py": [1]}})


def test_an_index_that_runs_here_is_rescheduled_without_a_stop() -> None:
    env = {"machine": "host", "backend": "hardware", "slices": 8, "drift": "none", "epochs": 2}
    small = {"records": 5_000, "warmup_seconds": 0.01}
    short = {"epoch_seconds": 0.06, "moves_per_epoch": 2, "backend_options": small}
    policies = {name: CONTINUAL.policy(name) for name in ("stay", "best-fit-once")}
    rows = roll_out({**env, **short}, policies, episodes=1, seed=0, domain="continual")
    assert [row["policy"] for row in rows] == ["stay", "best-fit-once"]
    assert all(CONTINUAL.ends_of(row)[1] >= 0 for row in rows)


def test_this_host_is_watched_while_it_measures() -> None:
    rounds: list[dict[str, Any]] = []
    env = {"backend": "hardware", "machine": "host", "slices": 8}
    options = {"records": 5000, "seconds": 0.4, "warmup_seconds": 0.05, "sweep_seconds": 0.05}
    policies = {"lpt": POLICIES["lpt"]}
    arguments = {**env, "backend_options": options}
    seconds: list[float] = []
    for _ in range(100):
        # On a busy host a measurement may end before the first of its rounds.
        if seconds and len(rounds) > len(seconds):
            break
        rounds.clear()
        (row,) = roll_out(arguments, policies, episodes=1, seed=0, on_round=rounds.append)
        seconds = row["provenance"]["rounds"]["seconds"]
    # Those of the incumbent, of the final schedule, and of the incumbent again.
    ends = [of_round["seconds"] for of_round in rounds]
    assert seconds and len(ends) > len(seconds)
    begin = ends.index(seconds[0])
    assert begin > 0 and ends[begin : begin + len(seconds)] == seconds
    rounds.clear()
    roll_out(TOY, policies, episodes=1, seed=0, on_round=rounds.append)
    assert not rounds


def test_the_simulated_server_comes_back_to_the_bit() -> None:
    env = {**TOY, "backend": "simulated", "backend_options": {"records": 5_000}}
    (row,) = roll_out(env, {"lpt": POLICIES["lpt"]}, episodes=1, seed=0, undo="always")
    assert row["restored"]["verified"]


def test_worse_schedules_alone_are_undone() -> None:
    class Crowd:
        """Everything on the first core that is allowed."""

        def reset(self) -> None:
            pass

        def act(self, observation: Any, action_mask: Any) -> int:
            return int(action_mask.argmax())

    policies: dict[str, Any] = {"crowd": Crowd(), "local-search": SchedulePolicy("local-search")}
    for row in roll_out(TOY, policies, episodes=2, seed=1, undo="worse"):
        worse = row["final_mq_per_s"] < row["incumbent_mq_per_s"]
        assert (row["restored"] is not None) == worse
        assert worse == (row["policy"] == "crowd")


def test_what_does_not_come_back_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    real = SpatialSchedulingEnv.restore
    monkeypatch.setattr(
        SpatialSchedulingEnv, "restore", lambda env: replace(real(env), throughput=0.5)
    )
    (row,) = roll_out(TOY, {"lpt": POLICIES["lpt"]}, episodes=1, seed=0, undo="always")
    restored = {"verified": False, "differs": ("throughput",), "mq_per_s": 0.5, "noisy": False}
    assert row["restored"] == restored and "comparison" not in row


def test_a_policy_of_another_task_is_refused_before_anything_is_measured() -> None:
    class Foreign:
        def check_env(self, env: Any) -> None:
            raise CheckpointError("of another task")

        def reset(self) -> None:
            raise AssertionError

        def act(self, observation: Any, action_mask: Any) -> int:
            raise AssertionError

    with pytest.raises(CheckpointError, match="of another task"):
        roll_out(TOY, {"foreign": Foreign()}, episodes=1, seed=0)
    with pytest.raises(UnknownNameError, match="undo"):
        roll_out(TOY, POLICIES, episodes=1, seed=0, undo="perhaps")  # type: ignore[arg-type]


@pytest.mark.parametrize("limits", [{}, {"max_growth": 10_000.0}])
def test_on_this_host_an_incumbent_is_measured_before_and_after(limits: dict[str, float]) -> None:
    """By default on the same records; an index that has grown is another one."""
    options = {"records": 20_000, "seconds": 0.3, "warmup_seconds": 0.05, **limits}
    env = {"machine": "host", "slices": 4, "backend": "hardware", "backend_options": options}
    (row,) = roll_out(env, {"lpt": POLICIES["lpt"]}, episodes=1, seed=0, undo="always")
    restored, compared = row["restored"], row["comparison"]
    assert restored["mq_per_s"] > 0 and compared["again_mq_per_s"] > 0
    assert compared["ratio_low"] < compared["ratio"] < compared["ratio_high"]
    # The limit is one that no host reaches: at it the index would be loaded anew.
    grown = compared["records"][0] < compared["records"][1] < compared["records"][2]
    assert grown == bool(limits)
    assert grown or set(compared["records"]) == {20_000}
    assert any(what.startswith("records ") for what in restored["differs"]) == grown
    assert restored["verified"] == (not restored["differs"])
    assert "records" in SPATIAL.row_in_words(row)


@pytest.mark.parametrize("backend", ["analytic", "hardware"])
def test_what_linux_does_by_itself_is_a_row(backend: str, tmp_path: Path) -> None:
    env = {**TOY, "noise": 1.0}
    if backend == "hardware":
        options = {"records": 5_000, "seconds": 0.2, "warmup_seconds": 0.05}
        env = {"machine": "host", "slices": 8, "backend": backend, "backend_options": options}
    named = named_policies(["lpt", "os-default", "os-interleave"])
    out = tmp_path / "rows.jsonl"
    rows = roll_out(env, named.policies, episodes=1, seed=0, undo="always", out=out)
    assert [row["schedule"]["data"] for row in rows[1:]] == ["first_touch", "interleaved"]
    assert all(row["schedule"]["routing"] == "any" for row in rows[1:])
    assert "schedule" not in rows[0]
    assert len({row["incumbent_mq_per_s"] for row in rows}) == (1 if backend == "analytic" else 3)
    assert all(row["final_mq_per_s"] > 0 for row in rows)
    assert "queries on any worker, data first_touch" in SPATIAL.row_in_words(rows[1])
    if backend == "analytic":
        assert all(row["restored"]["verified"] for row in rows)


@pytest.mark.parametrize("usual", ["0", "1"])
def test_automatic_balancing_is_switched_for_its_rows_alone(usual, kernel, monkeypatch):
    file = kernel / "proc/sys/kernel/numa_balancing"
    file.write_text(usual)
    monkeypatch.setattr(session, "switched", partial(switched, root=kernel))
    monkeypatch.setattr(measuring, "why_no_balancing", lambda nodes: "")
    measure, in_force = HardwareBackend.measure, []

    def watched(backend: Any, schedule: Schedule, *, seed: int) -> HardwareSnapshot:
        in_force.append(file.read_text().strip())
        return measure(backend, schedule, seed=seed)

    monkeypatch.setattr(HardwareBackend, "measure", watched)
    options = {"records": 5_000, "seconds": 0.2, "warmup_seconds": 0.05}
    env = {"machine": "host", "slices": 8, "backend": "hardware"}
    env["backend_options"] = {**options, "own_process": False}
    policies, without = SPATIAL.with_settings(named_policies(["os-default", "lpt"]).policies, env)
    assert list(policies) == ["os-default", *BALANCING, "lpt"] and not without
    roll_out(env, policies, episodes=1, seed=0)
    # Under the other setting no incumbent is measured.
    assert len(in_force) >= 3 * len(policies)
    assert len(in_force) - in_force.count(usual) == 1
    assert file.read_text() == usual
    given = {**env, "backend_options": {**options, "numa_balancing": "0"}}
    assert list(SPATIAL.with_settings(policies, given)[0]) == list(policies)


def test_rows_of_balancing_say_why_they_are_missing() -> None:
    linux = named_policies(["os-default"]).policies
    rows, without = SPATIAL.with_settings(linux, {"machine": "host", "backend": "hardware"})
    nodes = load_machine("host").nodes
    assert without == why_no_balancing(nodes) and (len(rows) == 3) == (not without)
    assert list(SPATIAL.with_settings(linux, TOY)[0]) == ["os-default", "os-default, AutoNUMA on"]


class Host:
    """An environment whose episode is over on a host that serves given rates.

    Args:
        rates: Mq/s of each measurement: the incumbent, the final schedule, and the incumbent again.
        spread: relative, of the sweeping rounds.
        busy: share of their CPUs that the workers had, of the incumbent before and after.
        records: of each measurement.
    """

    backend = SimpleNamespace(measures_host=True)

    def __init__(
        self,
        rates: Sequence[float],
        spread: float = 0.01,
        busy: tuple[float, float] = (1.0, 1.0),
        records: tuple[int, int] = (1000, 1000),
        rounds: int = 10,
    ) -> None:
        env = SpatialSchedulingEnv(**TOY)
        env.reset(seed=0)
        self._plain, self._rates, self.asked = env.incumbent_snapshot, list(rates), 0
        self._spread, self._rounds = spread, rounds
        self.incumbent_snapshot = self._measured(busy[0], records[0])
        self._final, self._later = self._measured(busy[0], records[0]), (busy[1], records[1])

    def final_snapshot(self) -> HardwareSnapshot:
        return self._final

    def restore(self) -> HardwareSnapshot:
        self.asked += 1
        return self._measured(*self._later)

    def _measured(self, busy: float, records: int) -> HardwareSnapshot:
        rate = self._rates.pop(0)
        counters = self._plain.slice_counters.copy()
        counters[:, COUNTER_INDEX["elapsed_us"]] = 1.0
        counters[:, COUNTER_INDEX["task_clock_us"]] = busy
        ends = [rate * (1 - self._spread), rate * (1 + self._spread)]
        provenance = {
            **{"worker_cpus": [1], "router_cpus": [0], "records_before": records},
            "rounds": {
                "node_mq_per_s": [[ends[i % 2]] for i in range(self._rounds)],
                "node_seconds": [[0.1]] * self._rounds,
            },
            **{"data": {"home_share": 1.0}},
        }
        return replace(self._plain, throughput=rate, slice_counters=counters, provenance=provenance)


def test_undone_means_served_again_within_noise_and_that_rate_is_shown() -> None:
    restored = SPATIAL.restore(host := Host([1.0, 1.5, 0.97]))
    assert restored.verified and not restored.differs and host.asked == 1
    assert restored.comparison is not None
    assert restored.comparison["records"] == (1000, 1000, 1000)
    assert restored.comparison["ratio"] == pytest.approx(1.5 / 0.985)
    low, high = (restored.comparison[name] for name in ("ratio_low", "ratio_high"))
    assert low < 1.5 / 0.985 < high < 1.1 * low
    # One bad measurement is not the index.
    restored = SPATIAL.restore(host := Host([1.0, 1.5, 0.5, 1.01]))
    assert restored.verified and host.asked == 2 and restored.mq_per_s == pytest.approx(1.01)
    # What the review measured: an index that has grown serves half, and says so.
    restored = SPATIAL.restore(host := Host([1.0, 0.9, 0.44, 0.45, 0.44]))
    assert not restored.verified and not restored.noisy and host.asked == 3
    assert restored.differs == ("throughput, 0.44 of before",)
    restored = SPATIAL.restore(host := Host([1.0, 0.9, 1.0], records=(1000, 6665)))
    assert not restored.verified and not restored.noisy and host.asked == 1
    assert restored.differs == ("records (1,000, then 6,665: give -o max_growth=0)",)


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        (Host([1.0, 1.0, 0.5, 0.7, 0.8]), r"0.70 of before \(measured again, .* 0.500 to 0.800"),
        (Host([1.0, 1.0, 0.6, 0.6, 0.6], busy=(1.0, 0.6)), "from 60% to 100% of their CPUs"),
        (Host([1.0, 1.0, 0.5, 0.5, 0.5], rounds=1), "too few sweeping rounds"),
        # Equal rates by chance, and rates around the one of before, verify nothing.
        (Host([1.0, 1.0, 1.0], rounds=2), r"1.00 of before \(too few sweeping rounds"),
        (Host([1.0, 1.0, 2.6, 1.7, 0.7]), "measured again, it serves from 0.700 to 2.600"),
        (Host([1.0, 1.0, 1.0], spread=0.4), "its sweeping rounds leave 57% to noise"),
        (Host([1.0, 1.0, 0.0, 0.0, 0.0]), "a measurement served nothing"),
    ],
)
def test_a_host_that_is_too_noisy_to_tell_says_so(host: Host, reason: str) -> None:
    restored = SPATIAL.restore(host)
    assert restored.noisy and not restored.verified
    assert re.search(reason, restored.differs[0]), restored.differs


def test_without_rounds_a_ratio_has_no_interval() -> None:
    compared = SPATIAL.restore(Host([1.0, 1.2, 1.0], rounds=2)).comparison
    assert compared is not None and compared["ratio"] == pytest.approx(1.2)
    assert compared["error"] is None and compared["ratio_high"] is None
    assert measuring.ratio_in_words(1.2, 0.0, None) == "1.20 [?]"
    assert measuring.ratio_in_words(*measuring.mean_ratio([(1.2, math.inf)])) == "1.20 [?]"
    # Several comparisons have a spread.
    _, low, high = measuring.mean_ratio([(1.1, math.inf), (1.2, math.inf), (1.3, math.inf)])
    assert 1.0 < low < 1.2 < high < 1.4


def test_what_rounds_show_as_noise_is_no_difference() -> None:
    assert SPATIAL.restore(Host([1.0, 1.0, 0.85], spread=0.15)).verified
    assert not SPATIAL.restore(Host([1.0, 1.0, 0.85, 0.85, 0.85])).verified
