"""What a round of moves may be."""

import pytest

from pmoss_datasets.continual.domain import CONTINUAL
from pmoss_datasets.continual.rounds import RoundPolicy
from pmoss_env.errors import PolicyError

TOY = {"machine": "toy", "slices": 8, "epochs": 2}


class Planned(RoundPolicy):
    """Plans the same every time."""

    def __init__(self, moves):
        super().__init__()
        self._planned = moves

    def plan(self, cores):
        return self._planned


@pytest.mark.parametrize(
    "plan", [7, None, [1, 2], ["ab"], [(0.5, 1)], [(0, 1, 2)], [(0, None)], "moves"]
)
def test_what_is_no_list_of_moves_is_named(plan):
    with pytest.raises(
        PolicyError, match=r"Planned: planned .*wanted is a list of \(slice, core\)"
    ):
        CONTINUAL.play(CONTINUAL.make_env(TOY), Planned(plan), 0)


@pytest.mark.parametrize("move", [(-1, 2), (8, 2), (0, -1), (0, 8)])
def test_a_move_to_nowhere_is_named(move):
    with pytest.raises(PolicyError, match=r"planned the move .*slices are 0 to 7, cores 0 to 7"):
        CONTINUAL.play(CONTINUAL.make_env(TOY), Planned([move]), 0)


def test_moves_beyond_those_of_a_round_are_left_out():
    env = CONTINUAL.make_env({**TOY, "moves_per_epoch": 1})
    core = int(env.unwrapped.machine.workers[0])
    played = CONTINUAL.play(env, Planned([(0, core), (1, core)]), 0)
    assert played.outcome > 0
