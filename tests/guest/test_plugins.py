"""Users' libraries on four nodes: pages follow their slices, or loaders touch them there first."""

import re
from pathlib import Path

import pytest

from tests.guest.virtual_machine import Member, Shape, need_guest, run_in_guest, with_libraries
from tests.native.builds import build_native
from tests.native.examples import EXAMPLES, need_example


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> str:
    need_guest()
    folder = tmp_path_factory.mktemp("plugins")
    files: dict[str, Member] = {}
    libraries_in_guest = []
    for example in ("lmdb", "absl_btree"):
        need_example(EXAMPLES[example])
        library = EXAMPLES[example].build(folder, "-O1")
        files |= {**with_libraries(library), f"{example}.so": Member.of(library)}
        libraries_in_guest.append(f"/{example}.so")
    tests = build_native("plain", "pmoss_plugin_guest_tests", "guest_init") / "tests"
    program = tests / "pmoss_plugin_guest_tests"
    hidden = tests / "plugins" / "hidden.so"
    files |= {**with_libraries(program), **with_libraries(hidden)}
    files |= {"program": Member.of(program), "hidden.so": Member.of(hidden)}
    outcome = run_in_guest(
        tests / "guest_init",
        ["/program", "--gtest_color=no"],
        files,
        shape=Shape(),
        environment={
            "PMOSS_GUEST_PLUGINS": ":".join(libraries_in_guest),
            "PMOSS_GUEST_HIDDEN": "/hidden.so",
            "LD_LIBRARY_PATH": ":".join(sorted({f"/{Path(name).parent}" for name in files})),
        },
    )
    assert outcome.status == 0, outcome.console[-6000:]
    return outcome.console


def test_pages_of_lmdb_and_absl_follow_their_slices(console: str) -> None:
    placed = re.findall(r"^PLACED /(\w+)\.so turn (\d): (\d+) of (\d+) pages$", console, re.M)
    assert [(name, turn) for name, turn, _, _ in placed] == [
        *(("lmdb", turn) for turn in "01"),
        *(("absl_btree", turn) for turn in "01"),
    ]
    for name, turn, home, pages in placed:
        assert int(home) >= 0.9 * int(pages) > 100, (name, turn)


def test_bound_loaders_touch_hidden_memory_on_its_node(console: str) -> None:
    placed = re.findall(r"^LOADED /hidden\.so node (\d): (\d+) of (\d+) pages", console, re.M)
    assert [node for node, _, _ in placed] == list("0123")
    assert abs(int(placed[0][1]) / int(placed[0][2]) - 0.5) < 0.05
