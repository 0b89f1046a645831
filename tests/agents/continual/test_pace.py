"""The agent that predicts how fast cores will be."""

import numpy as np
import pytest

import pmoss_agents
from pmoss_agents.continual.pace import Caution, Pace, SpeedEstimate, histories
from pmoss_datasets import Recipe, collect
from pmoss_datasets.continual.domain import CONTINUAL
from pmoss_env.errors import CheckpointError, DatasetError, DescriptionError
from pmoss_env.machines import load_machine

TOY = {"machine": "toy", "slices": 16, "epochs": 24, "drift": "periodic-cores"}
DRIFT = {"drift_options": {"count": 1, "period": 3}}


def recipe(**env):
    stay = [{"policy": "stay"}]
    given = {**TOY, **DRIFT, **env}
    return Recipe(domain="continual", env=given, episodes=4, behaviours=stay, reference_episodes=0)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return collect(recipe(), tmp_path_factory.mktemp("data") / "dataset")


def test_logs_tell_how_fast_cores_were(data):
    env = CONTINUAL.make_env(data.metadata.env_kwargs)
    workers = load_machine("toy").workers
    for seed, history in zip(data.column("seed"), histories(data), strict=True):
        env.reset(seed=int(seed))
        for epoch, speeds in enumerate(history):
            tenants = env.session.conditions(epoch).co_tenants
            busy = {tenant.target: tenant.strength for tenant in tenants}
            expected = [1.0 - busy.get(int(core), 0.0) for core in workers]
            np.testing.assert_allclose(speeds, expected, atol=1e-3)


def test_a_co_tenant_that_changes_cores_is_noticed_where_as_much_is_served_as_before():
    epochs = [([0.5, 0.9], [1.0, 0.6]), ([0.7, 0.7], [0.8, 0.8]), ([0.9, 0.5], [0.6, 1.0])]
    # Core 1 was never full, but is slower than it seemed. So the speed of core 0 is out of date.
    for moved, last in ((False, [0.9, 0.5]), (True, [0.5, 0.5])):
        estimate = SpeedEstimate()
        speeds = [estimate.add(np.array(s), np.array(f), 3.0, moved).tolist() for s, f in epochs]
        assert speeds == [[0.5, 0.9], [0.5, 0.7], last]


def test_caution_turns_back_where_a_trial_says_no():
    caution = Caution(1.5, 0.5)
    tried = []
    for kept in (True, False, True, False, False):
        tried.append(caution.next_power)
        caution.tried(caution.next_power, kept)
    assert tried == [2.0, 2.5, 1.75, 1.5, 1.875]
    assert caution.step == 0.0 and caution.next_power == caution.power == 1.75


SLOW = {**TOY, "slices": 128, "epochs": 12, "moves_per_epoch": 64}
SLOW["drift_options"] = {"count": 1, "period": 12, "strength": [0.5, 0.5]}


def test_another_caution_is_tried_once_cores_are_balanced():
    env = CONTINUAL.make_env(SLOW)
    agent, powers = Pace(caution=1.0), []
    observation, info = env.reset(seed=3)
    agent.begin(env, np.random.default_rng(3))
    while env.session.running:
        number = env.session.epoch
        while env.session.epoch == number:
            action = agent.act(observation, info["action_mask"])
            observation, _, _, _, info = env.step(action)
        powers.append(agent.planner.power)
        agent.trial_ended(False)
    assert powers[:2] == [1.0, 1.5] and 0.75 in powers


def test_it_plays_and_is_kept(data, tmp_path):
    agent = pmoss_agents.make("pace")
    agent.fit(data, checkpoint=tmp_path / "pace.safetensors")
    env = CONTINUAL.make_env(data.metadata.env_kwargs)
    again = pmoss_agents.load(tmp_path / "pace.safetensors")
    played, replayed = (CONTINUAL.play(env, policy, 3) for policy in (agent, again))
    assert played.actions == replayed.actions and played.illegal_actions == 0
    assert played.outcome > CONTINUAL.play(env, CONTINUAL.policy("stay"), 3).outcome


def test_what_it_cannot_learn_from_is_refused(tmp_path):
    with pytest.raises(DescriptionError, match="ridge = 0"):
        Pace(ridge=0.0)
    with pytest.raises(DescriptionError, match="caution = 9"):
        Pace(caution=9)
    with pytest.raises(CheckpointError, match="call begin"):
        Pace().act({})
    software = collect(recipe(counters="software", epochs=2), tmp_path / "software")
    other = Recipe(domain="threads", env={"requests": 20_000}, episodes=1, reference_episodes=0)
    with pytest.raises(DatasetError, match="not of 'continual'"):
        Pace().fit(collect(other, tmp_path / "other"))
    assert histories(software)
