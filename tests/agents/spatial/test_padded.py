"""Agents on smaller machines than the one that they were fitted for."""

import numpy as np
import pytest

from pmoss_agents.spatial.base import PaddedAgent
from pmoss_agents.spatial.encoders import places_of
from pmoss_datasets import Recipe, collect
from pmoss_datasets.evaluation import evaluate
from pmoss_env.envs.spatial import SpatialSchedulingEnv, meta_names
from pmoss_env.errors import CheckpointError
from pmoss_env.machines import load_machine

pytest.importorskip("torch")

from pmoss_agents.spatial.decision_transformer import DecisionTransformer

SLICES = {"slices": 8, "order": "load"}
#: Grids of 8 x 8, 4 x 8 and 2 x 4 core tiles.
LARGE, SMALL, TOY = "milan-nps4", "rome-7302", "toy"
SIZES = {"layers": 1, "heads": 2, "width": 16, "channels": 8, "updates": 2, "batch_size": 4}


@pytest.fixture(scope="module")
def agent(tmp_path_factory):
    recipe = Recipe(env={"machine": LARGE, **SLICES}, episodes=4, reference_episodes=0)
    data = collect(recipe, tmp_path_factory.mktemp("data") / "dataset")
    agent = DecisionTransformer(**SIZES)
    agent.fit(data)
    return agent


class Recorder:
    """An agent that notes what it is shown and takes the last tile that is allowed."""

    name = "recorder"

    def __init__(self, machine):
        names = list(meta_names(load_machine(machine)))
        grid = [load_machine(machine).rows, load_machine(machine).cols]
        self.task = {"grid": grid, "meta_names": names}
        self.seen = []

    def check_task(self, facts):
        pass

    def reset(self):
        pass

    def encoders(self):
        return []

    def act(self, observation):
        self.seen.append(observation)
        return int(np.flatnonzero(observation["position_mask"])[-1])


def test_on_its_own_machine_padding_changes_nothing(agent):
    policies = {"plain": agent, "padded": PaddedAgent(agent)}
    rows = evaluate({"machine": LARGE, **SLICES}, policies, [101], 2, 20, 5).rows
    assert rows[0].actions == rows[1].actions
    assert rows[2].actions == rows[3].actions


@pytest.mark.parametrize("machine", [SMALL, TOY])
def test_a_smaller_machine_is_placed_legally(agent, machine):
    found = evaluate(
        {"machine": machine, **SLICES}, {"padded": PaddedAgent(agent)}, [101], 2, 20, 5
    )
    assert [row.illegal_actions for row in found.rows] == [0, 0]


def test_its_networks_know_the_topology_of_the_machine_they_place_on(agent, monkeypatch):
    known = []
    act = agent.act

    def watched(observation):
        known.append(agent.encoders()[0].inputs.places.tolist())
        return act(observation)

    monkeypatch.setattr(agent, "act", watched)
    small, large = load_machine(SMALL), load_machine(LARGE)
    evaluate({"machine": SMALL, **SLICES}, {"padded": PaddedAgent(agent)}, [101], 1, 20, 5)
    padded = np.full((2, large.rows, large.cols), -1)
    there = places_of(small).reshape(2, small.rows, small.cols)
    padded[:, : small.rows, : small.cols] = there
    assert known
    assert all(places == padded.reshape(2, -1).tolist() for places in known)
    # Afterwards they are those of its own machine again.
    assert agent.encoders()[0].inputs.places.tolist() == places_of(large).tolist()


def test_tiles_lie_in_the_corner_and_meta_goes_by_name():
    recorder = Recorder(LARGE)
    policy = PaddedAgent(recorder)
    env = SpatialSchedulingEnv(machine=SMALL, **SLICES)
    observation, info = env.reset(seed=0)
    with pytest.raises(CheckpointError, match="call check_env"):
        policy.act(observation)
    policy.check_env(env)
    tile = policy.act(observation, info["action_mask"])
    assert tile == np.flatnonzero(info["action_mask"])[-1]
    seen = recorder.seen[0]
    rows, cols = load_machine(SMALL).rows, load_machine(SMALL).cols
    for key in ("position_mask", "view_mask", "machine_view", "incumbent_view"):
        assert seen[key].shape[:2] == tuple(recorder.task["grid"])
        np.testing.assert_array_equal(seen[key][:rows, :cols], observation[key])
        assert np.count_nonzero(seen[key]) == np.count_nonzero(observation[key])
    here = dict(zip(meta_names(env.machine), observation["meta"], strict=True))
    there = dict(zip(recorder.task["meta_names"], seen["meta"], strict=True))
    assert there == {name: here.get(name, 0.0) for name in there}


def test_a_larger_machine_other_slices_and_old_checkpoints_are_refused(agent):
    policy = PaddedAgent(agent)
    with pytest.raises(CheckpointError, match=r"\[8, 8\] core tiles: skylake-x-8n has \[8, 12\]"):
        policy.check_env(SpatialSchedulingEnv(machine="skylake-x-8n", **SLICES))
    with pytest.raises(CheckpointError, match=r"slices = 8, but .* slices = 9"):
        policy.check_env(SpatialSchedulingEnv(machine=TOY, slices=9, order="load"))
    with pytest.raises(CheckpointError, match="fit it with this version"):
        PaddedAgent(DecisionTransformer(**SIZES))
