from __future__ import annotations

import sys

import gymnasium
import numpy as np
import pytest

from pmoss_env.envs.spatial import viewer
from pmoss_env.errors import MissingExtraError
from pmoss_env.machines import load_machine

TOY = load_machine("toy")
SCHEDULE = TOY.local_schedule([1, 1, 1, 2, 5, 6, 6, 7])
LOAD = np.array([0, 2.0, 0.5, 0, 0, 0.1, 1.0, 0.4])


def test_text_shows_counts_roles_loads_and_borders():
    lines = viewer.as_text(TOY, SCHEDULE, LOAD, "a title").splitlines()
    assert lines[0] == "a title"
    assert lines[1].split() == ["R", "3█", "1░", "0"]
    assert set(lines[2]) == {"=", " "}
    assert lines[3].split() == ["R", "1░", "2▒", "1░"]
    assert "█ = 2" in lines[4]


def test_text_parts_nodes_and_sockets():
    text = viewer.as_text(
        load_machine("skylake-x-8n"),
        load_machine("skylake-x-8n").local_schedule([3]),
        np.zeros(96),
        "t",
    )
    rules = [line for line in text.splitlines()[1:-1] if set(line) <= set("-= |#")]
    assert [rule[0] for rule in rules] == ["-", "=", "-", "=", "-", "=", "-"]


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


def test_the_same_picture_twice():
    pytest.importorskip("matplotlib")
    first, second = (viewer.as_image(TOY, SCHEDULE, LOAD, "t") for _ in range(2))
    assert np.array_equal(first, second)
    heavier = viewer.as_image(TOY, SCHEDULE, LOAD[::-1], "t")
    assert not np.array_equal(first, heavier)


def test_placements_can_share_a_scale():
    figure = pytest.importorskip("matplotlib.figure").Figure()
    axes = figure.add_subplot()
    viewer.draw_placement(axes, TOY, SCHEDULE, LOAD, "t", highest_load=10.0)
    texts = [text.get_text() for text in axes.texts]
    assert texts[:8] == ["R", "3", "1", "0", "R", "1", "2", "1"]
    assert figure.axes[1].get_ylim() == (0, 10)


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"pmoss-env\[report\]"):
        viewer.as_image(TOY, SCHEDULE, LOAD, "t")


def test_render_without_a_mode_warns():
    env = gymnasium.make("pmoss/toy-v0").unwrapped
    env.reset(seed=0)
    with pytest.warns(UserWarning, match="render_mode"):
        assert env.render() is None
