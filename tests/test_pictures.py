import sys

import numpy as np
import pytest

from pmoss_env.errors import MissingExtraError
from pmoss_env.pictures import new_figure, pixels_of, write_png, write_svg

pytest.importorskip("matplotlib")


def test_a_figure_becomes_pixels_and_a_file_without_pyplot(tmp_path):
    figure = new_figure(2, 1, dpi=50)
    figure.add_subplot().plot([0, 1], color="red")
    image = pixels_of(figure)
    assert image.shape == (50, 100, 3) and image.dtype == np.uint8
    assert len(np.unique(image.reshape(-1, 3), axis=0)) > 2
    path = write_png(figure, tmp_path / "new" / "picture.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert [p.name for p in path.parent.iterdir()] == ["picture.png"]


def test_an_svg_file_follows_dark_mode(tmp_path):
    figure = new_figure(2, 1)
    figure.add_subplot().plot([0, 1])
    text = write_svg(figure, tmp_path / "picture.svg").read_text()
    assert text.count("prefers-color-scheme: dark") == 1
    assert 'id="figure_1"' in text  # to which the rules refer


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"'\.\[report\]'"):
        new_figure(1, 1)
