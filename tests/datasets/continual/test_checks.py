"""What policies of continual scheduling refuse to be made with."""

from fractions import Fraction

import numpy as np
import pytest

from pmoss_datasets.continual.checks import MOST_FUTURES
from pmoss_datasets.continual.oracles import Delayed, Law, Now, ThoroughLaw, ThoroughNow
from pmoss_datasets.continual.planners import FittedPlanner, SeasonalPlanner
from pmoss_datasets.continual.rules import BestFit, Repair, Tries
from pmoss_env.errors import DescriptionError

NUMBERS = [
    *((make, "price") for make in (Delayed, Law, Now, ThoroughLaw, ThoroughNow)),
    *((make, "price") for make in (FittedPlanner, SeasonalPlanner)),
    *((Repair, name) for name in ("gain", "act", "memory")),
    (Tries, "margin"),
]
WHOLE = [
    *((make, "futures") for make in (FittedPlanner, SeasonalPlanner)),
    *((make, "draws") for make in (Law, ThoroughLaw)),
    *((make, "ahead") for make in (ThoroughLaw, ThoroughNow)),
    (BestFit, "every"),
]


@pytest.mark.parametrize(("make", "name"), NUMBERS)
@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf"), "x", None, True, [0.1], 1j])
def test_what_is_no_share_is_refused_by_name(make, name, value):
    with pytest.raises(DescriptionError) as refused:
        make(**{name: value})
    assert str(refused.value).startswith(f"{name} = {value!r}: must be a finite number from 0")


@pytest.mark.parametrize(("make", "name"), WHOLE)
@pytest.mark.parametrize("value", [-1, 1.5, 2.0, float("nan"), "x", None, True, 2**31])
def test_what_is_no_whole_number_is_refused_by_name(make, name, value):
    with pytest.raises(DescriptionError) as refused:
        make(**{name: value})
    assert str(refused.value).startswith(f"{name} = {value!r}: must be a whole number from ")


def test_bounds_are_named():
    with pytest.raises(
        DescriptionError, match=r"memory = 1.5: must be a finite number from 0 to 1"
    ):
        Repair(memory=1.5)
    for make in (FittedPlanner, SeasonalPlanner):
        for value in (0, MOST_FUTURES + 1):
            with pytest.raises(DescriptionError, match=rf"futures = {value}: .* from 1 to 4,096"):
                make(futures=value)


def test_all_futures_of_an_oracle_have_one_bound():
    with pytest.raises(DescriptionError, match=r"futures of all epochs = 6\d+: .* to 4,096"):
        ThoroughLaw(draws=3000, ahead=4)


def test_numbers_of_other_libraries_are_numbers():
    assert Law(np.float32(0.25), np.int64(2))._price == 0.25
    assert Repair(gain=Fraction(1, 4), memory=1)._gain == 0.25
    assert BestFit(every=0)._every == 0
