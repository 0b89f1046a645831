import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmoss_env.envs.actions import whole_action
from pmoss_env.errors import IllegalActionError


@given(st.integers(1, 50), st.integers(-60, 60))
def test_only_what_is_in_the_space_passes(count, number):
    if 0 <= number < count:
        for form in (number, np.int64(number), np.array(number)):
            assert whole_action(form, count, "must be from") == number
    else:
        with pytest.raises(IllegalActionError, match=f"action {number}: must be .* {count - 1}"):
            whole_action(number, count, "must be from")


@pytest.mark.parametrize("action", [0.5, 1.0, "1", None, [1], np.array([1, 2]), True, np.True_])
def test_what_is_no_whole_number_is_named(action):
    with pytest.raises(IllegalActionError, match="must be a whole number"):
        whole_action(action, 4, "must be from")
