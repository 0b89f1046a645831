"""No policy reaches the hidden model: a cheating agent at every door."""

import math

import numpy as np
import pytest

from pmoss_datasets.domain import find_domain
from pmoss_datasets.evaluation import evaluate
from pmoss_datasets.fairness import (
    EnvironmentFacts,
    check_policy,
    policy_stream,
    reads_environment,
    shown_environment,
)
from pmoss_datasets.policies import Measured, SchedulePolicy, planned_actions
from pmoss_env.baselines import best_fit, local_search, uses
from pmoss_env.errors import DescriptionError, UnsupportedError

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


def test_a_planner_is_handed_no_model() -> None:
    class Cheat(Planning):
        def wanted(self, context):
            assert context.backend is None and context.measurements is None
            return local_search(context, 6000).schedule

    with pytest.raises(UnsupportedError, match="needs a backend"):
        play(Cheat())
    honest = Planning()
    rows = play(honest)
    assert [row.evaluations for row in rows] == [None, None]
    assert all(context.backend is None for context in honest.contexts)


def test_a_declared_search_is_counted_and_bounded() -> None:
    class Search(Planning):
        search_evaluations = 150

        def wanted(self, context):
            return local_search(context, self.asks_for).schedule

    policy = Search()
    policy.asks_for = 150
    rows = play(policy)
    assert all(0 < row.evaluations <= 150 for row in rows)
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


def test_chance_does_not_tell_the_seed() -> None:
    policy = Planning()
    seeds = [row.env_seed for row in play(policy)]
    for state, seed in zip(policy.states, seeds, strict=True):
        for stream in range(8):
            assert state != np.random.default_rng((seed, stream)).bit_generator.state
        assert state == policy_stream(seed).bit_generator.state
    # The same episode gives the same chance; another key another one.
    assert policy_stream(7).integers(2**62) == policy_stream(7).integers(2**62)
    assert policy_stream(7).integers(2**62) != policy_stream(7, key=b"x").integers(2**62)


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
            public = {name for name in dir(context.measurements) if name[0] != "_"}
            assert public == {
                *("budget", "left", "measure", "seconds", "snapshot", "throughput", "used")
            }
            assert context.backend is None
            return super().wanted(context)

    play(Measured(Asking(), 3))
    with pytest.raises(UnsupportedError, match="all 2 measurements are used up"):
        play(Measured(Asking(), 2))


@pytest.mark.parametrize("domain", ["continual", "threads", "access-path"])
def test_no_policy_of_another_domain_is_shown_the_environment(domain: str) -> None:
    class Looking:
        def reset(self):
            return None

        def begin(self, env, rng):
            assert isinstance(env, EnvironmentFacts) and not hasattr(env, "session")
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
