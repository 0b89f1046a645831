"""The thorough planner: what it reads off counters, and that it plays legally."""

from pmoss_datasets.continual.domain import CONTINUAL
from pmoss_datasets.continual.thorough import ThoroughPlanner

TOY = {"machine": "toy", "slices": 16, "epochs": 6}


def test_it_plays_legally_and_the_same_again():
    env = CONTINUAL.make_env({**TOY, "drift": "jobs", "noise": 1.0, "on_illegal": "raise"})
    played = [CONTINUAL.play(env, ThoroughPlanner(), 5) for _ in range(2)]
    assert len({(each.actions, each.outcome) for each in played}) == 1
    assert any(action < 16 * env.unwrapped.machine.tiles for action in played[0].actions)
    env.close()
