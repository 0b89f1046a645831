"""The stories of CONTRIBUTING.md: each is done, as it says, in a copy of the repository."""

from pathlib import Path

import pytest

from tests.contributing import Copy, stories

#: What a story's commands print when it has worked, by its heading.
SHOWN = {
    "Add a machine": "desk",
    "Add a workload": "lookups-mild",
    "Add a counter": "itlb_misses",
    "Add a baseline": "round-robin",
    "Add an agent": "habit",
    "Add a study": "0 values differ",
    "Add a backend": "grouped",
    "Add an index": "skiplist",
    "Add an environment": "local/walk",
}


def test_every_story_is_executed() -> None:
    assert set(SHOWN) == set(stories())


@pytest.mark.parametrize("title", SHOWN)
def test_a_story_does_what_it_says(title: str, tmp_path: Path) -> None:
    story = stories()[title]
    assert story.commands
    assert SHOWN[title] in Copy(tmp_path / "a copy").do(story)
