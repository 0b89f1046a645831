"""The map of the house in docs is that of the code."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"


@pytest.fixture(scope="module")
def drawing() -> ModuleType:
    spec = importlib.util.spec_from_file_location("draw_house", DOCS / "draw_house.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_map_shows_every_room(drawing: ModuleType) -> None:
    shown = set(re.findall(r">([\w/]+)</text>", drawing.PICTURE.read_text()))
    rooms = {name.removeprefix("envs/") for _, name in drawing.house()[0]}
    missing = rooms - shown
    assert not missing, f"run python docs/draw_house.py: {missing} are not on the map"


def test_every_room_has_a_sentence(drawing: ModuleType) -> None:
    text = (DOCS.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w/]+)`", text.partition("## Rules")[0]))
    named |= {"files", "spatial", "continual", "threads", "access_path"}
    rooms = {name.partition("/")[0] for _, name in drawing.house()[0]}
    named |= {name.partition("/")[0] for name in named} | {"envs"}
    assert not rooms - named, "CONTRIBUTING.md, The house"
