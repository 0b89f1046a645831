"""An evaluation of a few episodes."""

import pytest

from pmoss_datasets.evaluation import evaluate
from tests.datasets.evaluation.policies import KWARGS, SEEDS, policies


@pytest.fixture(scope="module")
def evaluation():
    return evaluate(
        KWARGS, policies(), SEEDS, episodes_per_seed=2, search_budget=300, random_schedules=30
    )


@pytest.fixture(scope="module")
def rows(evaluation):
    return evaluation.rows
