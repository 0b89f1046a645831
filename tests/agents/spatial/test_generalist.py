"""The generalist: what it learns from made-up worlds, and how it plays elsewhere."""

import gymnasium
import numpy as np
import pytest
import torch

import pmoss_agents
from pmoss_agents.spatial import generalist
from pmoss_agents.spatial.generalist import Clock, Generalist, loss_of
from pmoss_agents.spatial.lessons import Lesson, Lessons
from pmoss_agents.spatial.planning.topology import Topologies, Topology
from pmoss_datasets.evaluation import evaluate
from pmoss_datasets.policies import SchedulePolicy
from pmoss_datasets.spatial.world_sets import WorldSet, WorldsRecipe, make_worlds
from pmoss_datasets.spatial.worlds import draw_world
from pmoss_env.envs.spatial import SpatialSchedulingEnv
from pmoss_env.errors import CheckpointError, DatasetError, DescriptionError
from pmoss_env.machines import load_machine
from tests.agents.spatial.playing import mean_scores

SMALL = {
    **{"members": 1, "width": 32, "features": 16, "demands": 8, "batch_size": 4, "held": 4},
    **{"learning_rate": 3e-3, "save_every": 50, "tries": 0, "context": 8, "time_width": 24},
}
TOY = {"machine": "toy", "slices": 16, "interference": "busy_core"}


@pytest.fixture(scope="module")
def worlds(tmp_path_factory):
    return make_worlds(WorldsRecipe("train", 48), tmp_path_factory.mktemp("worlds") / "set")


@pytest.fixture(scope="module")
def agent(worlds):
    agent = Generalist(**SMALL, updates=300)
    agent.fit(worlds)
    return agent


def drawn(worlds, size, seed=0, missing=0.0):
    lessons = Lessons(worlds, missing, torch.device("cpu"))
    return lessons.draw(np.random.default_rng(seed), range(len(worlds)), size)


def mean_loss(agent, worlds):
    with torch.inference_mode():
        losses = [loss_of(agent.network[0], drawn(worlds, 4, seed))[0] for seed in range(20)]
    return float(torch.stack(losses).mean())


def test_it_learns_what_schedules_serve(agent, worlds):
    new = Generalist(**SMALL, updates=1)
    assert new.fit(worlds).keys() == {"loss", "error", "held_loss", "held_error"}
    assert mean_loss(agent, worlds) < 0.8 * mean_loss(new, worlds)


def test_a_machine_is_read_alike_among_larger_ones(agent, worlds):
    model = agent.network[0]
    lesson = drawn(worlds, 6)
    with torch.inference_mode():
        together = loss_of(model, lesson)[0]
        alone = []
        for row in range(6):
            workers = int(lesson.topologies.nodes[row].diagonal().sum())
            small = object.__new__(Topologies)
            small.workers = workers
            for name, part in vars(lesson.topologies).items():
                if name != "workers":
                    own = part[row : row + 1, :workers]
                    square = name in ("siblings", "caches", "nodes")
                    setattr(small, name, own[..., :workers] if square else own)
            alone.append(
                loss_of(model, Lesson(small, *(part[row : row + 1] for part in lesson[1:])))[0]
            )
    torch.testing.assert_close(together, torch.stack(alone).mean(), rtol=1e-4, atol=1e-5)


def test_lessons_are_the_same_from_files_and_from_memory(worlds):
    every = [Lessons(worlds, 0.5, torch.device("cpu"), held=held) for held in (False, True)]
    for seed in range(3):
        drawn = [each.draw(np.random.default_rng(seed), range(3, 40), 5) for each in every]
        (topologies, *parts), (others, *other_parts) = drawn
        assert all(torch.equal(a, b) for a, b in zip(parts, other_parts, strict=True))
        for name in ("siblings", "caches", "nodes", "sizes", "capacity"):
            assert torch.equal(getattr(topologies, name), getattr(others, name))


def test_a_world_holds_the_topology_of_its_machine(worlds):
    for number in (0, 2, 3):
        topology = Topology(load_machine(draw_world("train", number).machine))
        groups = torch.from_numpy(worlds[number]["groups"][:, : topology.workers].copy())
        other = Topologies(groups[None], torch.from_numpy(worlds[number]["cache_mib"].copy())[None])
        for name in ("siblings", "caches", "nodes", "sizes", "capacity"):
            torch.testing.assert_close(getattr(other, name)[0], getattr(topology, name))


@pytest.mark.parametrize("context", [0, 8])
def test_schedules_are_predicted_alike_one_by_one_and_together(worlds, context):
    agent = Generalist(**{**SMALL, "context": context}, updates=30)
    agent.fit(worlds)
    model, lesson = agent.network[0], drawn(worlds, 3)
    with torch.inference_mode():
        reading = model.read(lesson.topologies, lesson.before, lesson.incumbent)
        times, _, totals = model.predict(lesson.topologies, reading, lesson.columns)
        for place in range(times.shape[1]):
            alone = model(lesson.topologies, reading, lesson.columns[:, place])
            together = times[:, place], totals[:, place]
            torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)


def test_what_is_predicted_everywhere_is_predicted_where_slices_are(agent, worlds):
    model, record = agent.network[0], worlds[2]
    topology = Topology(load_machine(draw_world("train", 2).machine))
    slices = int(record["slices"])
    counters = torch.from_numpy(record["counters"][0, :1, :slices].copy())
    columns = torch.from_numpy(record["columns"][0, :1, :slices].astype(np.int64))
    with torch.inference_mode():
        reading = model.read(topology, counters, columns)
        times, _ = model(topology, reading, columns)
        everywhere = model.everywhere(topology, reading, columns)
    torch.testing.assert_close(everywhere[torch.arange(slices), columns[0]], times[0])


def test_a_training_may_end_by_the_clock(worlds, monkeypatch):
    seconds = iter(range(1000))
    monkeypatch.setattr("time.monotonic", lambda: float(next(seconds)))
    clock = Clock(100, 10.0)
    assert [clock.share(0), clock.share(50), clock.is_over()] == [0.1, 0.5, False]
    monkeypatch.setattr("time.monotonic", lambda: 1000.0)
    assert (clock.share(1), clock.is_over()) == (1.0, True)
    monkeypatch.setattr(Clock, "is_over", lambda self: True)
    begun = Generalist(**SMALL, updates=50, seconds=1.0)
    assert begun.fit(worlds).keys() == {"loss", "error", "held_loss", "held_error"}
    assert begun.updates == 1


def test_it_plays_at_once_on_a_machine_that_it_never_met(agent):
    policies = {"generalist": agent, "random": SchedulePolicy("random")}
    score = mean_scores(TOY, policies, episodes=6)
    assert score["generalist"] > 50 > score["random"]


@pytest.mark.heavy
def test_a_minute_on_one_core_teaches_it_servers_that_it_never_met(tmp_path):
    worlds = make_worlds(WorldsRecipe("train", 512), tmp_path / "set")
    sizes = {"width": 96, "features": 48, "demands": 24, "held": 16}
    agent = Generalist(members=1, updates=1000, tries=50, precision="float32", **sizes)
    agent.fit(worlds)
    policies = {"generalist": agent, "lpt": SchedulePolicy("lpt")}
    means = {name: [] for name in policies}
    servers = {"skylake-x-8n": "ycsb-a", "milan-nps4": "scans", "random-smt:30000002": "ycsb-a"}
    for machine, workload in servers.items():
        env = {"machine": machine, "workload": workload, "interference": "all", "slices": 128}
        rows = evaluate(env, policies, [5], 3, 300, 20).rows
        for name, scores in means.items():
            scores += [row.score for row in rows if row.policy == name]
    assert np.mean(means["generalist"]) > 70 > 40 > np.mean(means["lpt"])


def test_a_stopped_training_goes_on_to_the_same_bits(worlds, tmp_path):
    def stop(done, total, metrics):
        if done == 20:
            raise KeyboardInterrupt

    whole, begun = (Generalist(**{**SMALL, "save_every": 10}, updates=30) for _ in range(2))
    whole.fit(worlds)
    with pytest.raises(KeyboardInterrupt):
        begun.fit(worlds, progress=stop, checkpoint=tmp_path / "begun.safetensors")
    again = pmoss_agents.load(tmp_path / "begun.safetensors")
    again.fit(worlds)
    mine, theirs = again._state()[0], whole._state()[0]
    assert all(np.array_equal(mine[name], theirs[name]) for name in theirs)


def test_it_says_what_it_waits_for(worlds, tmp_path, monkeypatch):
    with pytest.raises(DatasetError, match="must be more than held = 100"):
        Generalist(**{**SMALL, "held": 100}, updates=1).fit(worlds)
    monkeypatch.setattr(generalist, "_PATIENCE", 0.0)
    monkeypatch.setattr(WorldSet, "made", lambda self, count: False)
    with pytest.raises(DatasetError, match="goes on making it"):
        Generalist(**SMALL, updates=1).fit(worlds)


def test_looking_on_finds_what_the_model_expects_more_of(agent, worlds):
    machine, record = load_machine(draw_world("train", 1).machine), worlds[1]
    slices, plans = int(record["slices"]), {}
    counters, columns = record["counters"][0, 0, :slices], record["columns"][0, 0, :slices]
    for looks in (0, 4):
        other = Generalist(**{**SMALL, "looks": looks}, updates=300)
        other.task, other.network = agent.task, agent.network
        other.use(machine)
        planner = other.planner(counters, columns.astype(np.int64), max_per_core=slices // 4)
        plans[looks] = planner.plan()
    worths = {looks: planner.worth(plan) for looks, plan in plans.items()}
    assert worths[4] >= worths[0]
    assert np.bincount(plans[4]).max() <= slices // 4


@pytest.mark.parametrize("value", [0.0, np.nan])
def test_a_snapshot_without_a_query_fills_no_single_core(agent, worlds, value):
    machine, record = load_machine(draw_world("train", 1).machine), worlds[1]
    slices = int(record["slices"])
    counters, columns = record["counters"][0, 0, :slices], record["columns"][0, 0, :slices]
    agent.use(machine)
    plan = agent.planner(np.full_like(counters, value), columns.astype(np.int64)).plan()
    assert np.bincount(plan).max() < slices / 2


@pytest.fixture
def shown(agent):
    """What an environment shows that the agent was asked about."""
    env = SpatialSchedulingEnv(**TOY, observation="complete")
    agent.check_env(env)
    agent.reset()
    return env.reset(seed=1)[0]


@pytest.mark.parametrize(
    ("change", "mask", "text"),
    [
        ({"slice": np.array([np.nan])}, None, r"\['slice'\] = \[nan\]: must be one number"),
        ({"slice": np.ones(1)}, None, r"call env\.reset\(\)"),
        ({"slice": np.zeros((2, 1))}, None, "must be one number"),
        ({}, np.ones(3), r"a mask of 3 float64 values.* must have 8"),
        ({}, np.zeros(8), "0 of them above 0"),
        ({"position_mask": np.ones((3, 3))}, None, "a mask of 9 float64 values"),
        ({"slice_counters": np.ones((2, 16, 21))}, None, "2 environments at once: it plays one"),
        ({"slice_counters": np.full((16, 21), "many")}, None, r"type <U4 for 16 slices"),
        ({"incumbent_tiles": np.full(16, np.nan)}, None, r"type float64: must be \(slices"),
    ],
)
def test_an_observation_that_no_environment_shows_is_refused(agent, shown, change, mask, text):
    with pytest.raises(DescriptionError, match=text):
        agent.act({**shown, **change}, mask)


@pytest.mark.parametrize("name", ["CartPole-v1", "pmoss/ThreadScheduling-v0", "vector", None])
def test_another_environment_is_refused(agent, name):
    if name == "vector":
        env = gymnasium.make_vec("pmoss/SpatialScheduling-v0", num_envs=2, **TOY)
    else:
        env = gymnasium.make(name) if name else None
    with pytest.raises(CheckpointError, match=r"spatial scheduling|vector of 2|no machine"):
        agent.check_env(env)
    with pytest.raises(DescriptionError, match=r"plan\(\) takes a Context"):
        agent.plan(env, np.arange(16))


@pytest.mark.parametrize(("value", "text"), [(0.0, "0"), (np.nan, "0"), (3.0, "the same")])
def test_counters_without_information_are_answered_with_a_warning(agent, shown, value, text):
    counters = np.full_like(shown["slice_counters"], value)
    with pytest.warns(RuntimeWarning, match=f"counters of all slices are {text}: they tell no"):
        assert 0 <= agent.act({**shown, "slice_counters": counters}) < 8
