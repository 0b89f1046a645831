"""Policies and settings of a small evaluation."""

import numpy as np

from pmoss_datasets.evaluation import write_results
from pmoss_datasets.policies import SchedulePolicy
from pmoss_env.baselines import make_baseline

KWARGS = {"machine": "toy", "slices": 12, "interference": "busy_core"}


SEEDS = (0, 1, 2)


class FirstTile:
    """Always the same tile, which may be an illegal one."""

    def __init__(self, tile=1):
        self.tile = tile
        self.resets = 0

    def reset(self):
        self.resets += 1

    def act(self, observation, action_mask):
        assert action_mask.dtype == np.int8
        assert observation["slice"].shape == (1,)
        return self.tile


def policies():
    return {
        "random": SchedulePolicy("random"),
        "lpt": SchedulePolicy("lpt"),
        "search": SchedulePolicy(make_baseline("local-search", budget=300)),
        "first": FirstTile(),
        "illegal": lambda seed: FirstTile(0),
    }


def written(path, evaluation, **notes):
    write_results(path, evaluation, **notes)
    return path
