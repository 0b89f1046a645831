"""No policy reaches the hidden model: a cheating agent at every door."""

import math
import sys
import types
from contextlib import suppress
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from pmoss_datasets import Behaviour, Recipe, collect
from pmoss_datasets.domain import find_domain
from pmoss_datasets.evaluation import evaluate
from pmoss_datasets.fairness import (
    EnvironmentFacts,
    EpisodeFacts,
    check_policy,
    policy_stream,
    reads_environment,
    shown_environment,
)
from pmoss_datasets.policies import Measured, SchedulePolicy, SharedSchedule, planned_actions
from pmoss_datasets.stepwise.policies import RulePolicy
from pmoss_env.baselines import best_fit, local_search, lpt, uses
from pmoss_env.errors import DescriptionError, UnsupportedError
from tests.benchmarks.leaderboard.seed_behind import seed_behind

ENV = {"machine": "toy", "workload": "ycsb-a", "interference": "busy_core", "slices": 8}


class Planning:
    """Places what ``wanted`` gives, as a user's planner would."""

    def __init__(self) -> None:
        self.contexts, self.envs, self.states = [], [], []

    def check_env(self, env):
        self.envs.append(env)

    def reset(self):
        self._t = 0

    def plan(self, context, order):
        self.contexts.append(context)
        self.states.append(context.rng.bit_generator.state)
        schedule = self.wanted(context)
        self._actions = planned_actions(context.machine, schedule, order, context.chooses_node)

    def wanted(self, context):
        return best_fit(context)

    def act(self, observation, action_mask):
        self._t += 1
        return int(self._actions[self._t - 1])


def play(policy, **how):
    return evaluate(ENV, {"x": policy}, [5], 2, search_budget=200, random_schedules=5, **how).rows


def test_only_linux_may_end_an_episode_without_actions():
    class Shared(SharedSchedule):
        def schedule(self, context):
            return super().schedule(context)

    assert [row.actions for row in play(SharedSchedule("os-default"))] == [(), ()]
    with pytest.raises(UnsupportedError, match="no actions lead"):
        play(Shared("os-default"))


def test_a_planner_is_handed_no_model() -> None:
    class Cheat(Planning):
        def wanted(self, context):
            assert context.backend is None and context.measurements is None
            return local_search(context, 6000).schedule

    with pytest.raises(UnsupportedError, match="needs a backend"):
        play(Cheat())
    honest = Planning()
    assert [row.evaluations for row in play(honest)] == [None, None]
    assert all(context.backend is None for context in honest.contexts)


def test_a_declared_search_is_counted_and_bounded() -> None:
    class Search(Planning):
        search_evaluations = 150

        def wanted(self, context):
            return local_search(context, self.asks_for).schedule

    policy = Search()
    policy.asks_for = 150
    assert all(0 < row.evaluations <= 150 for row in play(policy))
    backend = policy.contexts[0].backend
    # Nothing that it is handed leads to the instance.
    assert not {"instance", "model", "session"} & {n for n in dir(backend) if n[0] != "_"}
    with pytest.raises(UnsupportedError, match="the instance of its episode"):
        backend.set_instance(None)
    policy.asks_for = 6000
    with pytest.raises(UnsupportedError, match="its budget is 150"):
        play(policy)
    for budget in (0, -1, True, 1e9):
        policy.search_evaluations = budget
        with pytest.raises(DescriptionError, match="search_evaluations"):
            play(policy)


def test_a_users_baseline_that_asks_the_model_has_a_budget() -> None:
    @uses("the model", needs_backend=True)
    def unbounded(context):
        return local_search(context, 6000).schedule

    with pytest.raises(DescriptionError, match="search_evaluations = None"):
        play(SchedulePolicy(unbounded))

    @uses("the model", needs_backend=True)
    def bounded(context, budget=100):
        return local_search(context, 6000).schedule

    with pytest.raises(UnsupportedError, match="its budget is 100"):
        play(SchedulePolicy(bounded))


@pytest.mark.parametrize("name", ["local-search", "annealing", "greedy-marginal", "exact"])
def test_searches_of_the_project_stay_within_what_they_declare(name: str) -> None:
    slices = {"slices": 3} if name == "exact" else {}
    budget = None if name == "exact" else 120
    policy = find_domain("spatial").policy(name, budget=budget)
    rows = evaluate({**ENV, **slices}, {name: policy}, [5], 2, 120, 5).rows
    assert all(row.evaluations > 0 for row in rows)
    assert budget is None or all(row.evaluations <= budget for row in rows)


def test_a_stream_that_is_inverted_does_not_tell_the_seed() -> None:
    policy = Planning()
    seeds = [row.env_seed for row in play(policy)]
    for state, seed in zip(policy.states, seeds, strict=True):
        assert seed not in seed_behind(state)
        assert state == policy_stream(seed).bit_generator.state
    # The same episode gives the same chance; another key or stream another one.
    streams = policy_stream(7), policy_stream(7, key=b"x"), policy_stream(7, stream=3)
    assert len({stream.integers(2**62) for stream in streams}) == 3


def test_snapshots_do_not_tell_the_seed_of_their_noise() -> None:
    class Looking(Planning):
        def wanted(self, context):
            shown = [context.snapshot]
            if context.measurements is not None:
                shown.append(context.measurements.measure(context.incumbent))
            assert all("seed" not in snapshot.provenance for snapshot in shown)
            return super().wanted(context)

    evaluate({**ENV, "noise": 1.0}, {"x": Looking(), "y": Measured(Looking(), 1)}, [5], 1, 100, 5)
    env = find_domain("spatial").make_env({**ENV, "noise": 1.0})
    env.reset(seed=1)
    # The seed is kept where no policy looks: with it, all noise of the episode comes out again.
    assert "seed" in env.incumbent_snapshot.provenance
    env.close()


def test_a_snapshot_does_not_tell_policies_of_co_tenants() -> None:
    env = find_domain("spatial").make_env(ENV)
    env.reset(seed=1)
    hidden = {"co_tenant_cpus": [3], "co_tenant_gb_per_s": 2.0, "seed": 7}
    snapshot = replace(env.incumbent_snapshot, provenance={**hidden, "routers": "workers"})
    shown = snapshot.for_policies()
    assert shown.provenance == {"routers": "workers"}
    # What a policy does to its own changes no log.
    shown.slice_counters[:] = 0
    assert snapshot.slice_counters.any()
    env.close()


def test_a_context_ends_with_its_episode() -> None:
    env = find_domain("continual").make_env({"machine": "toy", "slices": 8, "epochs": 2})
    env.reset(seed=1)
    facts = EpisodeFacts(env)
    assert facts.context(np.random.default_rng(0)).slices == 8
    # Another policy plays the same episode.
    env.reset(seed=1)
    with pytest.raises(UnsupportedError, match="the episode of this context has ended"):
        facts.context(np.random.default_rng(0))
    env.close()


def test_a_measured_schedule_is_the_one_whose_counters_are_shown() -> None:
    class Swaps(Planning):
        def wanted(self, context):
            schedule = best_fit(context)
            before = context.measurements.throughput(schedule)
            schedule.cores.setflags(write=True)
            schedule.cores[:] = context.machine.workers[0]
            self.readings = before, context.measurements.snapshot().throughput
            return best_fit(context)

    policy = Swaps()
    evaluate(ENV, {"x": Measured(policy, 1)}, [5], 1, 100, 5)
    assert policy.readings[0] == policy.readings[1]


#: What a policy is handed, and what that leads to by public names.
SHOWN = {
    *("Arguments", "Context", "CountedBackend", "Distances", "EnvironmentFacts", "EpisodeFacts"),
    *("HardwareSnapshot", "Jobs", "LoadRegime", "Machine", "Measurements", "Migration"),
    *("Parameter", "Schedule", "Workload"),
}


def reached(root: object) -> set[str]:
    """The project's classes that public names lead to, through containers and attributes."""
    classes, todo, visited = set(), [root], []
    while todo:
        thing = todo.pop()
        if any(thing is before for before in visited):
            continue
        visited.append(thing)
        if isinstance(thing, dict):
            todo += thing.values()
        elif isinstance(thing, list | tuple):
            todo += thing
        elif type(thing).__module__.startswith("pmoss"):
            classes.add(type(thing).__name__)
            for name in dir(thing):
                if name[0] != "_":
                    with suppress(Exception):  # a property may refuse, as Machine.mesh_ns does
                        todo.append(getattr(thing, name))
    return classes


def test_nothing_that_a_policy_is_handed_leads_to_the_model() -> None:
    class Search(Planning):
        search_evaluations = 5

    for policy, played in ((first := Search(), first), (second := Search(), Measured(second, 2))):
        play(played)
        handed = reached([policy.envs, policy.contexts])
        assert {"Context", "Machine", "EnvironmentFacts"} <= handed <= SHOWN


def test_response_times_do_not_tell_a_throughput_without_noise() -> None:
    class Looking(Planning):
        def wanted(self, context):
            shown = [context.measurements.measure(context.incumbent) for _ in range(2)]
            self.medians = [snapshot.latency_p50_us for snapshot in (context.snapshot, *shown)]
            return super().wanted(context)

    for noise, count in ((0.0, 1), (1.0, 3)):
        policy = Looking()
        evaluate({**ENV, "noise": noise}, {"x": Measured(policy, 2)}, [5], 1, 100, 5)
        assert len(set(policy.medians)) == count


def test_a_policy_is_shown_facts_and_not_the_environment() -> None:
    policy = Planning()
    play(policy)
    (env,) = policy.envs
    assert isinstance(env, EnvironmentFacts) and env.unwrapped is env
    assert env.machine.name == "toy" and env.slices == 8 and env.observation_mode == "full"
    assert not {"session", "instance", "reset", "backend", "context"} & set(dir(env))
    # A wrapper of the project does not pass on what it is shown.
    wrapped = Planning()
    play(Measured(wrapped, 2))
    assert isinstance(wrapped.envs[0], EnvironmentFacts)


def test_only_classes_of_the_project_are_listed() -> None:
    with pytest.raises(UnsupportedError, match="Planning: only policies of this project"):
        reads_environment(Planning)

    class Heir(Measured):
        """Is no listed class, though it derives from one."""

    env = find_domain("spatial").make_env(ENV)
    assert shown_environment(Measured(Planning(), 1), env) is env
    assert shown_environment(Heir(Planning(), 1), env) is not env
    with pytest.raises(UnsupportedError, match="measurements"):
        check_policy(Heir(Planning(), 1), env)


def test_measurements_are_metered_and_lead_nowhere() -> None:
    class Asking(Planning):
        def wanted(self, context):
            for _ in range(3):
                context.measurements.measure(context.incumbent)
            assert {name for name in dir(context.measurements) if name[0] != "_"} == {
                *("budget", "close", "left", "measure"),
                *("seconds", "snapshot", "throughput", "used"),
            }
            assert context.backend is None
            return super().wanted(context)

    assert [row.measurements for row in play(Measured(Asking(), 3))] == [3, 3]
    with pytest.raises(UnsupportedError, match="all 2 measurements are used up"):
        play(Measured(Asking(), 2))


def test_a_planner_cannot_set_its_budget() -> None:
    class Raising(Planning):
        search_evaluations = 5

        def wanted(self, context):
            meter = context.measurements or context.backend
            for name in ("budget", "evaluations" if context.measurements is None else "used"):
                with pytest.raises(AttributeError):
                    setattr(meter, name, 0)
            return super().wanted(context)

    play(Measured(Raising(), 2))
    play(Raising())


def test_what_one_episode_leaves_measures_no_other() -> None:
    class Hoarding(Planning):
        search_evaluations = 50

        def wanted(self, context):
            for before in self.contexts[:-1]:
                meter = before.measurements or before.backend
                ask = getattr(meter, "throughput", None) or meter.place
                with pytest.raises(UnsupportedError, match="episode"):
                    ask(context.incumbent)
            return super().wanted(context)

    for policy in (Hoarding(), Measured(inner := Hoarding(), 50)):
        play(policy)
    with pytest.raises(UnsupportedError, match="the plan of this episode is made"):
        inner.contexts[-1].measurements.snapshot()


def test_a_measured_policy_has_one_budget_an_episode() -> None:
    class Again(Planning):
        def wanted(self, context):
            if len(self.contexts) == 1:
                self.wrapper.plan(context, context.order)
            return super().wanted(context)

    policy = Again()
    policy.wrapper = Measured(policy, 3)
    with pytest.raises(UnsupportedError, match="an episode is planned once"):
        play(policy.wrapper)


def test_a_baseline_of_others_cannot_call_itself_one_of_the_project() -> None:
    class Forged:
        func = staticmethod(lpt)

        def __call__(self, context):
            self.state = context.rng.bit_generator.state
            return lpt(context)

    baseline = Forged()
    policy = SchedulePolicy(baseline)
    assert not policy.is_own
    with pytest.raises(AttributeError):
        policy.is_own = True
    seed = play(policy)[-1].env_seed
    assert baseline.state == policy_stream(seed).bit_generator.state


def test_a_class_that_says_it_is_of_the_project_is_shown_facts() -> None:
    class Forged(Planning):
        """Says that it is of the project."""

    for module in ("pmoss_agents.anything", "pmoss_datasets.policies"):
        Forged.__module__ = module
        policy = reads_environment(Forged)()
        play(policy)
        assert isinstance(policy.envs[0], EnvironmentFacts)


def test_a_rule_of_others_does_not_read_the_environment() -> None:
    calls = []

    def rule(env, observation, mask, rng):
        calls.append((env, rng.bit_generator.state))
        return int(np.argmax(mask))

    domain = find_domain("access-path")
    env = domain.make_env({"scans": 2})
    domain.play(env, RulePolicy(rule), 11)
    assert all(isinstance(shown, EnvironmentFacts) for shown, _ in calls)
    assert calls[0][1] == policy_stream(11).bit_generator.state
    env.close()


class Collecting(Planning):
    """A collector of others; it keeps the generators that it is handed."""

    made: ClassVar[list] = []

    def __init__(self) -> None:
        super().__init__()
        self.made.append(self)

    def begin(self, env, rng):
        assert isinstance(env, EnvironmentFacts)
        self.states.append(rng.bit_generator.state)

    def act(self, observation, action_mask):
        return super().act(observation, action_mask) if self.contexts else int(action_mask.argmax())


@pytest.mark.parametrize(
    ("domain", "env"), [("spatial", ENV), ("access-path", {"scans": 2}), ("threads", {})]
)
def test_a_collector_of_others_has_no_model_and_no_seed(domain, env, tmp_path, monkeypatch):
    module = types.ModuleType("collecting")
    module.make = Collecting
    monkeypatch.setitem(sys.modules, "collecting", module)
    monkeypatch.setattr(Collecting, "made", [])
    behaviours = (Behaviour("collecting:make"),)
    recipe = Recipe(env=env, episodes=2, domain=domain, behaviours=behaviours, reference_episodes=0)
    data = collect(recipe, tmp_path / "data")
    (policy,) = Collecting.made
    assert all(context.backend is None for context in policy.contexts)
    assert policy.states == [policy_stream(episode.seed).bit_generator.state for episode in data]


def test_a_machine_cannot_be_changed_for_others() -> None:
    machine = find_domain("spatial").make_env(ENV).machine
    for name in ("workers", "node_of_core", "tile_of_core", "worker_tiles", "core_of_tile"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(machine, name)[0] = 1


@pytest.mark.parametrize("domain", ["continual", "threads", "access-path"])
def test_no_policy_of_another_domain_is_shown_the_environment(domain: str) -> None:
    class Looking:
        def reset(self):
            return None

        def begin(self, env, rng):
            assert isinstance(env, EnvironmentFacts) and reached(env) <= SHOWN
            states = [np.random.default_rng((11, k)).bit_generator.state for k in range(8)]
            assert rng.bit_generator.state not in states

        def act(self, observation, mask):
            if domain == "continual":
                slices = len(observation["slice_tiles"])
                return np.array([slices, int(np.argmax(mask[slices + 1 :]))], dtype=np.int32)
            return int(np.argmax(mask))

    small = {"continual": {"machine": "toy", "slices": 8, "epochs": 2, "drift": "jobs"}}
    home = find_domain(domain)
    env = home.make_env(small.get(domain, {}))
    check_policy(Looking(), env)
    assert math.isfinite(home.play(env, Looking(), 11).outcome)
    env.close()
