import gymnasium
import numpy as np
import pytest


@pytest.mark.parametrize("name", ["pmoss/toy-v0", "pmoss/SpatialScheduling-v0"])
@pytest.mark.parametrize("mode", ["ansi", "rgb_array"])
def test_render_follows_the_episode(name, mode):
    if mode == "rgb_array":
        pytest.importorskip("matplotlib")
    env = gymnasium.make(name, render_mode=mode)
    env.reset(seed=0)
    first = env.render()
    env.step(int(np.flatnonzero(env.unwrapped.action_masks())[-1]))
    second = env.render()
    if mode == "ansi":
        assert "0 of" in first
        assert "1 of" in second
    else:
        assert first.dtype == np.uint8
        assert first.ndim == 3
        assert first.shape[2] == 3
        assert min(first.shape[:2]) >= 200
        assert first.shape == second.shape
        assert not np.array_equal(first, second)
        # A picture, and not an empty page.
        assert len(np.unique(first.reshape(-1, 3), axis=0)) > 50


def test_render_without_a_mode_warns():
    env = gymnasium.make("pmoss/toy-v0").unwrapped
    env.reset(seed=0)
    with pytest.warns(UserWarning, match="render_mode"):
        assert env.render() is None
