"""The loop on whatever host runs the tests: no figure is asserted, only what came of it."""

import json
import os

import pytest

from pmoss_agents.autopilot.decision import MOST_PAIRS
from pmoss_agents.autopilot.loop import EpochFile, fly, running_env
from pmoss_agents.autopilot.page import report_page
from pmoss_datasets.continual.domain import CONTINUAL
from pmoss_datasets.continual.rounds import RoundPolicy
from pmoss_datasets.fairness import EnvironmentFacts, EpisodeFacts, policy_stream
from pmoss_env.backends.frames import unpack_snapshot
from pmoss_env.errors import DatasetError, PolicyError, UnsupportedError
from pmoss_env.machines import load_machine
from tests.backends.ended import threads_of_process

HERE = {
    **{"slices": 8, "epochs": 4, "epoch_seconds": 0.08, "moves_per_epoch": 2},
    **{"drift": "none", "incumbent": "spread"},
    "backend_options": {"records": 5_000, "warmup_seconds": 0.01},
}

pytestmark = pytest.mark.skipif(
    load_machine("host").workers.size < 2, reason="needs two worker cores"
)


class Restless(RoundPolicy):
    """Moves the first slice away, every epoch."""

    def plan(self, cores):
        return [(0, int(next(core for core in self.env.machine.workers if core != cores[0])))]


class Broken(Restless):
    """Raises in the middle of its second round, and from then on."""

    asked = 0

    def act(self, observation, action_mask):
        self.asked += 1
        if self.asked == 1:
            return self.env.slices, int(self.env.machine.worker_tiles.argmax())
        if self.asked == 2:
            return super().act(observation, action_mask)
        raise RuntimeError("a bug of the agent")


def test_every_change_is_tried_and_its_epoch_kept(tmp_path):
    threads = threads_of_process()
    path, epochs = tmp_path / "epochs.jsonl", 20
    for session in (1, 2):
        file = EpochFile(path, HERE)
        epochs_of_run = []
        for epoch in fly(running_env({**HERE, "epochs": epochs}, 0), Restless()):
            file.append(epoch)
            epochs_of_run.append(epoch)
        file.close()
        assert threads_of_process() == threads and not file.lost
        rows = [json.loads(line) for line in path.read_text().splitlines()[1:]]
        assert [(row["session"], row["epoch"]) for row in rows][-epochs:] == [
            (session, epoch + 1) for epoch in range(epochs)
        ]
    before = None
    for epoch, row in zip(epochs_of_run, rows[-epochs:], strict=True):
        trial = epoch.trial
        if trial is None:  # it rests after changes that were reverted, as chance has it
            assert epoch.verdict == ("trying" if epoch.trying else "stayed")
            assert before in (None, epoch.cores)
            continue
        assert trial.slices == 1 and len(trial.gains) <= MOST_PAIRS
        assert len(trial.before) == len(trial.after) == len(trial.gains)
        assert epoch.verdict == ("kept" if trial.kept else "reverted")
        assert epoch.measured == pytest.approx(sum(trial.after) / sum(trial.before) - 1)
        if before is not None:
            assert (epoch.cores == before) != trial.kept
        before = epoch.cores
        assert row["cores"] == list(epoch.cores)
        assert unpack_snapshot(row["snapshot"]).throughput == epoch.snapshot.throughput
    page = report_page(epochs_of_run, "a <title>", ["a note"])
    tried = sum(epoch.trial is not None for epoch in epochs_of_run)
    assert "a &lt;title&gt;" in page and page.count("<title>epoch ") == tried > 0


def test_an_agent_that_raises_moves_nothing_and_is_reported():
    epochs_of_run = list(fly(running_env({**HERE, "epochs": 6}, 0), Broken()))
    troubled = [number for number, epoch in enumerate(epochs_of_run) if epoch.trouble]
    assert troubled == [1, 2, 3] and len(epochs_of_run) == 6
    assert "RuntimeError: a bug of the agent" in epochs_of_run[1].trouble
    assert "asked no more" in epochs_of_run[3].trouble
    assert len({epoch.cores for epoch in epochs_of_run}) == 1
    assert all(epoch.trial is None for epoch in epochs_of_run)


class Unshown(Exception):
    def __str__(self):
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        *((kind(3), f"{kind.__name__}: 3; nothing moves") for kind in (SystemExit, GeneratorExit)),
        (BaseException(3), "BaseException: 3; nothing moves"),
        (Unshown(), "Unshown, which cannot be shown; nothing moves"),
    ],
)
def test_an_agent_cannot_end_the_loop(error, words):
    agent = Restless()

    def act(observation, action_mask):
        raise error

    agent.act = act
    first, _ = fly(running_env({**HERE, "epochs": 2}, 0), agent)
    assert first.trouble == f"the agent raised {words}"


def test_an_agent_that_closes_the_environment_is_named():
    env = running_env({**HERE, "epochs": 2}, 0)
    agent = Restless()

    def act(observation, action_mask):
        env.close()

    agent.act = act
    with pytest.raises(PolicyError, match="closed the environment that it plays in"):
        list(fly(env, agent))


def test_an_agent_is_shown_facts_and_not_the_environment():
    shown = []
    agent = Restless()
    agent.check_env = shown.append
    agent.begin = lambda env, rng: shown.extend((env, rng.bit_generator.state))
    agent.act = lambda observation, mask: (8, int(observation["tile_mask"].argmax()))
    list(fly(running_env({**HERE, "epochs": 1}, 0), agent, seed=4))
    assert [type(env) for env in shown[:2]] == [EnvironmentFacts, EpisodeFacts]
    assert shown[2] == policy_stream(4).bit_generator.state


def test_forbidden_moves_are_counted_by_epoch():
    agent = Restless()
    # Stays where it is; a slice moves once in an epoch.
    agent.act = lambda observation, mask: (0, int(observation["slice_tiles"][0]))
    epochs_of_run = fly(running_env({**HERE, "epochs": 2}, 0), agent)
    assert [epoch.decision.illegal for epoch in epochs_of_run] == [1, 1]


def test_an_agent_that_cannot_begin_is_not_asked():
    broken = Restless()
    broken.reset = lambda: 1 // 0
    epochs_of_run = list(fly(running_env({**HERE, "epochs": 2}, 0), broken))
    assert [bool(epoch.trouble) for epoch in epochs_of_run] == [True, False]
    assert "ZeroDivisionError" in epochs_of_run[0].trouble and epochs_of_run[0].trial is None


def test_who_needs_a_described_machine_is_refused_before_the_index_is_loaded(monkeypatch):
    env = running_env(HERE, 0)
    monkeypatch.setattr(env, "reset", lambda **_: pytest.fail("the index is loaded"))
    with pytest.raises(UnsupportedError, match=r"^planner: .*repair, kernel-like, tries, or the a"):
        next(fly(env, CONTINUAL.policy("planner")))


def test_a_full_disk_does_not_stop_the_loop(tmp_path, monkeypatch):
    path = tmp_path / "epochs.jsonl"
    file = EpochFile(path, HERE)
    write, full = os.write, True

    def no_room(handle, data):
        if full:
            write(handle, bytes(data[:5]))
            raise OSError(28, "No space left on device")
        return write(handle, data)

    env = running_env({**HERE, "epochs": 3}, 0)
    monkeypatch.setattr("pmoss_env.result_files.os.write", no_room)
    for epoch in fly(env, CONTINUAL.policy("stay")):
        file.append(epoch)
        assert bool(file.trouble) == full
        full = False
    file.close()
    assert file.lost == 1
    with pytest.raises(DatasetError, match="another command"):
        EpochFile(path, {})
    assert [json.loads(row).get("epoch") for row in path.read_text().splitlines()] == [None, 2, 3]


def test_an_index_that_inserts_have_made_too_large_is_loaded_anew():
    small = {**HERE["backend_options"], "max_growth": 0.0}
    env = running_env({**HERE, "epochs": 4, "backend_options": small}, 0)
    index, epochs = env.session.live, list(fly(env, CONTINUAL.policy("stay")))
    sizes = [epoch.records for epoch in epochs]
    assert max(sizes[:-1]) > 5_000 and not index.ended
    for size, epoch in zip([0, *sizes], epochs, strict=False):
        grown = f"loaded anew: {size:,} records were 5,000 at first"
        assert epoch.reloaded == (grown if size > 5_000 else "")
    reloads = sum(bool(epoch.reloaded) for epoch in epochs)
    assert f"loaded anew {reloads} times" in report_page(epochs, "t", [])


def test_a_loop_without_memory_for_another_epoch_ends_kindly(monkeypatch):
    env = running_env({**HERE, "epochs": 50}, 0)
    flight = fly(env, CONTINUAL.policy("stay"))
    # Without an insert no epoch needs memory.
    while next(flight).records == 5_000:
        pass
    monkeypatch.setattr("pmoss_agents.autopilot.trials._native.available_memory", lambda: 1 << 20)
    assert list(flight) == []
    assert env.session.live.ended.startswith("this process may take only 1 MiB more, and an epoch")


def test_a_reader_who_stops_leaves_no_thread():
    threads = threads_of_process()
    flight = fly(running_env(HERE, 0), Restless())
    next(flight)
    assert threads_of_process() > threads
    flight.close()
    assert threads_of_process() == threads
