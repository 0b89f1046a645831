"""Pictures of pages: what they hold is what they were given."""

from xml.etree import ElementTree

import numpy as np
import pytest

from pmoss_benchmarks.texts.drawing import KINDS, Bar, draw_bars, draw_maps

SVG = "{http://www.w3.org/2000/svg}"


def test_bars_are_as_long_as_their_values() -> None:
    learned, search = KINDS["learned"], KINDS["search in the model"]
    bars = [Bar("a < b", "learned", 2.0, 1.5, 2.5), Bar("c", "search in the model", 5.0)]
    root = ElementTree.fromstring(draw_bars({"one": bars, "two": bars[:1]}, "Mq/s"))
    # The last of a colour is its mark in the legend.
    *of_learned, _ = [one for one in root.iter(f"{SVG}rect") if one.get("fill") == learned]
    of_search, _ = [one for one in root.iter(f"{SVG}rect") if one.get("fill") == search]
    assert len(of_learned) == 2
    first, longest = (float(one.get("width", 0)) for one in (of_learned[0], of_search))
    assert first / longest == pytest.approx(2 / 5, abs=1e-3)
    # Each panel has its own scale: here the end of the interval fills it.
    assert float(of_learned[1].get("width", 0)) / longest == pytest.approx(2 / 2.5, abs=1e-3)
    words = [one.text for one in root.iter(f"{SVG}text")]
    assert {"a < b", "c", "one", "two", "Mq/s"} <= set(words)
    assert "shared slices" not in words
    assert "learned elsewhere" in draw_bars({"one\nlearned elsewhere": bars}, "Mq/s")
    assert len(list(root.iter(f"{SVG}path"))) == 4


def test_maps_share_the_scale_of_a_row() -> None:
    before = np.array([[0.0, 10.0, 5.0], [1.0, 1.0, 1.0]])
    after = np.array([[0.0, 0.0, 2.5], [0.0, 0.0, 0.0]])
    text = draw_maps({"before": before, "after": after}, ["x", "y"], [0, 0, 1], "node")
    assert text == draw_maps({"before": before, "after": after}, ["x", "y"], [0, 0, 1], "node")
    root = ElementTree.fromstring(text)
    _, *cells = list(root.iter(f"{SVG}rect"))
    colours = [one.get("fill") for one in cells[:12]]
    scale = [one.get("fill") for one in cells[12:]]
    assert len(scale) == 11 and len(set(scale)) == 11
    shown = [scale.index(colour) for colour in colours]
    assert shown == [0, 10, 5, 10, 10, 10, 0, 0, 2, 0, 0, 0]
    left = [float(one.get("x", 0)) for one in cells[:3]]
    assert left[2] - left[1] > left[1] - left[0]
    words = [one.text for one in root.iter(f"{SVG}text")]
    assert words.count("node 0") == 2 and words.count("1") == 2


def test_a_row_without_counts_is_drawn_empty() -> None:
    root = ElementTree.fromstring(draw_maps({"one": np.zeros((1, 2))}, ["x"], [0, 0], "node"))
    _, *cells = list(root.iter(f"{SVG}rect"))
    assert cells[0].get("fill") == cells[1].get("fill") == cells[2].get("fill")
