"""The surrogate: a learned model of throughput, and what is planned in it."""

import dataclasses

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import pmoss_agents  # noqa: E402
from pmoss_agents import checkpoints  # noqa: E402
from pmoss_agents.spatial.encoders import GROUPS as SUMS  # noqa: E402
from pmoss_agents.spatial.planning import (  # noqa: E402
    GROUPS,
    MORE_GROUPS,
    Pairs,
    Planner,
    ThroughputModel,
    Topology,
    balance,
    longest_first,
    refine,
)
from pmoss_agents.spatial.surrogate import Surrogate  # noqa: E402
from pmoss_datasets.evaluation import evaluate  # noqa: E402
from pmoss_datasets.policies import Measured, SchedulePolicy  # noqa: E402
from pmoss_env.envs.spatial import SpatialSchedulingEnv  # noqa: E402
from pmoss_env.envs.spatial.observation import observed_counters  # noqa: E402
from pmoss_env.errors import (  # noqa: E402
    CheckpointError,
    DatasetError,
    DescriptionError,
    UnsupportedError,
)
from pmoss_env.machines import load_machine  # noqa: E402
from pmoss_env.types import COUNTER_INDEX, COUNTER_NAMES  # noqa: E402
from tests.agents.spatial.playing import collected  # noqa: E402

TOY = {"machine": "toy", "slices": 16, "interference": "busy_core"}
SMALL = {"members": 2, "updates": 150, "width": 24, "features": 8, "demands": 4, "rounds": 3}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return collected(TOY, tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def agent(data):
    agent = Surrogate(**SMALL)
    agent.fit(data)
    return agent


@pytest.fixture
def known(data):
    """A member and what it reads off two incumbents."""
    torch.manual_seed(0)
    topology = Topology(data.machine)
    member = ThroughputModel(len(COUNTER_NAMES), width=24, features=8, demands=4)
    pairs = Pairs(data, topology)
    counters, columns = pairs.counters[0][:2], pairs.columns[0][:2]
    return member, topology, counters, columns


def test_it_learns_what_schedules_serve(data):
    agent = Surrogate(**{**SMALL, "updates": 1})
    before = agent.fit(data)["error"]
    agent.config = dataclasses.replace(agent.config, updates=150)
    after = agent.fit(data)["error"]
    assert after < 0.25 * before


def test_it_is_fine_tuned_from_its_weights(agent, data):
    again = agent.renewed(updates=1, learning_rate=1e-9)
    assert (again.updates, again.config.learning_rate, again.dataset) == (0, 1e-9, {})
    before, begun = agent._state()[0], again._state()[0]
    assert all(np.array_equal(begun[name], before[name]) for name in begun)
    # Weights that fit already foretell better than new ones.
    assert again.fit(data)["error"] < 0.5 * Surrogate(**{**SMALL, "updates": 1}).fit(data)["error"]
    assert agent.updates == SMALL["updates"]
    for wrong, kind in (({"width": 12}, CheckpointError), ({"widths": 12}, DescriptionError)):
        with pytest.raises(kind):
            agent.renewed(**wrong)
    with pytest.raises(CheckpointError, match="call fit"):
        Surrogate(**SMALL).renewed()
    with pytest.raises(UnsupportedError, match="cannot be fine-tuned"):
        pmoss_agents.make("bc").renewed()


def test_untrained_a_query_takes_as_long_on_every_core(known):
    member, topology, counters, columns = known
    member.set_up(counters.flatten(0, 1))
    with torch.inference_mode():
        here = member.read(topology, counters[:1], columns[:1])
        table = member.everywhere(topology, here, columns[:1])
    assert (table == table[0, 0]).all()


@pytest.mark.parametrize("told", [GROUPS, MORE_GROUPS], ids=["usual", "more"])
@pytest.mark.parametrize("without", ["", *MORE_GROUPS])
def test_everywhere_foretells_what_forward_does(known, told, without):
    _, topology, counters, columns = known
    kept = [group for group in told if group != without]
    member = ThroughputModel(len(COUNTER_NAMES), width=24, features=8, demands=4, inputs=kept)
    member.set_scales(counters.flatten(0, 1))
    with torch.inference_mode():
        here = member.read(topology, counters[:1], columns[:1])
        table = member.everywhere(topology, here, columns[:1])
        assert table.shape == (16, len(topology.tiles))
        for slice_, worker in ((0, 0), (3, 2), (15, 5)):
            moved = columns[:1].clone()
            moved[0, slice_] = worker
            times, _ = member(topology, here, moved)
            torch.testing.assert_close(times[0, slice_], table[slice_, worker])


def test_costs_tell_a_slow_memory_at_any_load(known):
    """What a line from memory costs says it, however few lines there are."""
    _, topology, counters, columns = known
    member = ThroughputModel(len(COUNTER_NAMES), width=24, features=8, demands=4)
    member.set_scales(counters.flatten(0, 1))
    slow = counters.clone()
    slow[..., COUNTER_INDEX["cycles_l3_miss"]] *= 1.5
    told = slice(len(COUNTER_NAMES), None)
    plain, less, late = (member._standard(one)[..., told] for one in (counters, counters / 3, slow))
    torch.testing.assert_close(plain, less, atol=0.05, rtol=0)
    assert (late[..., -1] - plain[..., -1]).median() > 0.5
    # A counter that was not read tells nothing.
    none = counters.clone()
    none[..., COUNTER_INDEX["local_dram"] :] = 0
    assert (member._standard(none)[..., -1] == 0).all()
    assert torch.isfinite(member.read(topology, none, columns).slices).all()


def test_order_and_names_of_slices_and_cores_do_not_matter(known):
    member, topology, counters, columns = known
    shuffled = torch.from_numpy(np.random.default_rng(0).permutation(16))
    # Workers of one cache and node may trade places.
    alike = torch.nonzero(topology.caches[0]).squeeze(1)
    trade = torch.arange(len(topology.tiles))
    trade[alike] = alike.flip(0)
    with torch.inference_mode():
        plain = member(topology, member.read(topology, counters, columns), columns)
        there = trade[columns[:, shuffled]]
        other = member(topology, member.read(topology, counters[:, shuffled], there), there)
    torch.testing.assert_close(plain[0][:, shuffled], other[0])
    torch.testing.assert_close(plain[1], other[1])


def test_the_fullest_core_bounds_the_throughput(known):
    member, topology, counters, columns = known
    with torch.inference_mode():
        here = member.read(topology, counters, columns)
        times, total = member(topology, here, columns)
        busy = torch.zeros(2, len(topology.tiles)).scatter_add_(
            1, columns, here.shares * times.exp()
        )
        assert (total <= member.scale - busy.amax(1).log() + 1e-6).all()
        member.sharpness.fill_(8.0)
        _, sharp = member(topology, here, columns)
        torch.testing.assert_close(sharp, member.scale - busy.amax(1).log(), atol=0.02, rtol=0)


def test_it_beats_the_schedules_it_learned_from(agent, data):
    policies = {"surrogate": agent, "random": SchedulePolicy("random")}
    rows = evaluate(TOY, policies, [5], 8, 200, 20).rows
    mean = {name: np.mean([row.score for row in rows if row.policy == name]) for name in policies}
    assert mean["surrogate"] > 60 > mean["random"]
    assert not any(row.illegal_actions for row in rows)


def test_a_longer_search_balances_the_foretold_times_better(agent):
    # By the search alone: best() may take a plan for like cores, which is foretold to be worse.
    env = SpatialSchedulingEnv(**{**TOY, "slices": 64})
    other = agent.renewed()
    other.use(env.machine)
    shorter, longer = [], []
    for seed in range(5):
        env.reset(seed=seed)
        context = env.context(np.random.default_rng(0))
        tiles = env.machine.tile_of_core[context.incumbent.cores]
        columns = other.topology.column[tiles]
        times = other.planner(observed_counters(context.snapshot), columns).times(columns)
        short = balance(times, longest_first(times))
        long = refine(times, short, 100, np.random.default_rng(seed))
        for tops, plan in ((shorter, short), (longer, long)):
            tops.append(np.bincount(plan, times[np.arange(64), plan]).max())
    assert all(np.less_equal(longer, shorter)) and sum(longer) < sum(shorter)


def test_foretold_differences_of_cores_are_left_out_where_that_is_worth_more(agent, monkeypatch):
    other = agent.renewed(tries=1)
    other.use(load_machine("toy"))
    workers, shares = len(other.topology.tiles), np.linspace(1.0, 2.0, 24)
    wrong = np.random.default_rng(0).uniform(0.8, 1.2, (24, workers))
    monkeypatch.setattr(Planner, "times", lambda _, columns: shares[:, None] * wrong)
    # What is worth most is known here: that the cores are alike.
    monkeypatch.setattr(Planner, "worth", lambda _, plan: -np.bincount(plan, shares, workers).max())
    plan = other.planner(np.ones((24, len(COUNTER_NAMES))), np.arange(24) % workers).plan()
    alike = np.repeat((shares * wrong.mean(1))[:, None], workers, 1)
    assert plan.tolist() == longest_first(alike).tolist()


def test_the_observation_tells_what_the_context_does(agent):
    [row] = evaluate(TOY, {"surrogate": agent}, [5], 1, 20, 5).rows
    env = SpatialSchedulingEnv(**TOY, observation="complete")
    agent.check_env(env)
    agent.reset()
    observation, info = env.reset(seed=row.env_seed)
    actions, over = [], False
    while not over:
        actions.append(agent.act(observation, info["action_mask"]))
        observation, _, over, _, info = env.step(actions[-1])
    assert tuple(actions) == row.actions


def test_a_constraint_is_kept(agent):
    env = {**TOY, "constraints": {"max_slices_per_core": 3}, "on_illegal": "raise"}
    [row] = evaluate(env, {"surrogate": agent}, [5], 1, 20, 5).rows
    assert np.bincount(row.actions).max() <= 3


def test_it_acts_on_a_machine_that_it_never_saw(agent):
    env = {"machine": "skylake-x-4n", "slices": 64, "on_illegal": "raise"}
    [row] = evaluate(env, {"surrogate": agent}, [5], 1, 20, 5).rows
    assert len(set(row.actions)) > load_machine("toy").workers.size


def test_a_run_that_was_cut_ends_with_the_same_weights(data, tmp_path):
    whole = Surrogate(**{**SMALL, "updates": 6})
    whole.fit(data)
    path = tmp_path / "agent.safetensors"
    stopped = Surrogate(**{**SMALL, "updates": 6, "save_every": 3})

    def stop(done, total, metrics):
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped.fit(data, progress=stop, checkpoint=path)
    resumed = pmoss_agents.load(path)
    assert 3 <= resumed.updates < 6
    resumed.fit(data)
    for (name, a), b in zip(
        whole.network.state_dict().items(), resumed.network.state_dict().values(), strict=True
    ):
        assert torch.equal(a, b), name


@pytest.mark.parametrize("lost", ["cycles", "queries", "elapsed_us"])
def test_missing_counters_are_no_obstacle(agent, lost):
    env = SpatialSchedulingEnv(**TOY)
    env.reset(seed=1)
    counters = env.incumbent_snapshot.slice_counters.copy()
    counters[:, COUNTER_INDEX[lost]] = np.nan
    agent.check_env(env)
    agent.plan(env.context(np.random.default_rng(0)), env.order)
    start = agent.topology.column[env.machine.tile_of_core[env.incumbent.cores]]
    planner = agent.planner(counters, start)
    columns = planner.plan()
    for _ in range(2):
        planner.observe(counters, columns)
        columns = planner.plan(columns, 1)
    assert columns.shape == (16,)
    assert 0 <= columns.min() <= columns.max() < env.machine.workers.size


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_measurements_help_and_are_counted(agent, noise):
    env = {**TOY, "noise": noise}
    policies = {str(budget): Measured(agent, budget) for budget in (0, 5)}
    policies["none"] = agent
    rows = evaluate(env, policies, [5], 8, 200, 20).rows
    scores = {
        name: np.array([row.score for row in rows if row.policy == name]) for name in policies
    }
    assert scores["0"].tolist() == scores["none"].tolist()
    assert policies["5"].used == 5
    assert scores["5"].mean() > scores["0"].mean()
    again = evaluate(env, {"5": Measured(agent, 5)}, [5], 8, 200, 20).rows
    assert [row.actions for row in again] == [row.actions for row in rows if row.policy == "5"]


def test_what_it_lacks_is_said(agent, data, tmp_path):
    observation, _ = SpatialSchedulingEnv(**TOY).reset(seed=1)
    agent.reset()
    with pytest.raises(CheckpointError, match="observation='complete'"):
        agent.act(observation)
    complete, _ = SpatialSchedulingEnv(**TOY, observation="complete").reset(seed=1)
    path = tmp_path / "agent.safetensors"
    agent.save(path)
    with pytest.raises(CheckpointError, match="check_env"):
        pmoss_agents.load(path).act(complete)
    with pytest.raises(CheckpointError, match=r"call fit\(\)"):
        fresh = Surrogate(**SMALL)
        fresh.check_env(SpatialSchedulingEnv(**TOY))
        fresh.act(complete)
    for name, value in (
        ("members", 0),
        ("members", 2**62),
        ("width", 2**62),
        ("batch_size", 2**62),
    ):
        with pytest.raises(DescriptionError, match=f"surrogate: {name} = {value}: must be at"):
            Surrogate(**{name: value})


def test_data_without_counters_after_the_move_are_refused(data):
    class Blind:
        path, machine = data.path, data.machine

        def column(self, name):
            values = np.array(data.column(name))
            return np.zeros_like(values) if name == "final_counters" else values

    with pytest.raises(DatasetError, match="final_counters: elapsed_us is 0"):
        Pairs(Blind(), Topology(data.machine))


def test_a_snapshot_of_another_machine_is_refused(agent):
    env = SpatialSchedulingEnv(**TOY)
    env.reset(seed=1)
    agent.check_env(env)
    context = env.context(np.random.default_rng(0))
    few = dataclasses.replace(context.snapshot, slice_counters=np.ones((3, len(COUNTER_NAMES))))
    agent.reset()
    with pytest.raises(DescriptionError, match="for 16 slices"):
        agent.plan(dataclasses.replace(context, snapshot=few), env.order)
    complete, _ = SpatialSchedulingEnv(
        machine="skylake-x-8n", slices=16, observation="complete"
    ).reset(seed=1)
    complete["incumbent_tiles"] = np.full(16, 90)
    with pytest.raises(DescriptionError, match="another machine"):
        agent.act(complete)


@pytest.mark.parametrize("value", [-np.inf, np.inf, -1.0, 1e38])
def test_what_no_counter_can_show_counts_as_none(agent, value):
    env = SpatialSchedulingEnv(**TOY, observation="complete")
    observation, _ = env.reset(seed=1)
    agent.check_env(env)
    for rows in (slice(2), slice(None)):
        seen, none = (
            {**observation, "slice_counters": observation["slice_counters"].copy()}
            for _ in range(2)
        )
        seen["slice_counters"][rows] = value
        none["slice_counters"][rows] = 0.0
        plans = []
        for one in (seen, none):
            agent.reset()
            agent.act(one)
            plans.append(agent._tiles)
        assert np.array_equal(*plans)
    env.close()


def test_tries_have_bounds():
    for tries in (-1, 10**30):
        with pytest.raises(DescriptionError, match="tries = "):
            Surrogate(tries=tries)


def test_a_missing_gpu_is_told(data, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UnsupportedError, match="finds no GPU"):
        Surrogate(**SMALL, device="cuda").fit(data)
    settings = {**SMALL, "updates": 3}
    plain, auto = Surrogate(**settings), Surrogate(**settings, device="auto")
    assert plain.fit(data) == auto.fit(data)


def test_a_model_of_before_costs_were_known_is_loaded_as_it_was(data, tmp_path):
    old = Surrogate(**{**SMALL, "updates": 2, "inputs": list(SUMS)})
    old.fit(data)
    old.save(tmp_path / "old.safetensors")
    header, arrays = checkpoints.read(tmp_path / "old.safetensors")
    del header["config"]["inputs"]
    again = Surrogate.from_checkpoint(tmp_path / "old.safetensors", header, arrays)
    assert again.config.inputs == SUMS


def test_unknown_groups_of_inputs_are_refused():
    with pytest.raises(DescriptionError, match=r"surrogate: inputs = .*'rule'"):
        Surrogate(inputs=["slice", "rule"])
