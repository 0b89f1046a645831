"""Schedules for the statements of P-MOSS: played once, stored, and measured again."""

import pytest

pytest.importorskip("torch")

from pmoss_benchmarks.functions import answers, declared
from pmoss_benchmarks.functions.answers import NOT_TRAINED, UNSEEN, Settings, cells, measure
from pmoss_benchmarks.offline.episodes import unpack_episodes
from pmoss_benchmarks.spatial.author_networks import Settings as AuthorsSettings
from pmoss_benchmarks.study.function import Run, identity_of, silent
from pmoss_benchmarks.study.store import StoredStudy, file_of


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("answers")
    authors = AuthorsSettings(machines=(), data=60)
    StoredStudy(
        file_of(folder, "authors"), "authors", identity_of(authors), ["machine"], {}, []
    ).write()
    settings = Settings(
        pairs=("milan-nps4 lookups", "rome-7302 ycsb-a"),
        servers=("milan-nps4",),
        surrogate={"updates": 2, "width": 8, "features": 4, "demands": 4, "members": 1},
        episodes=1,
    )
    made = Run(settings, folder / "data", folder / "keep", folder)
    answers.prepare(made, silent)
    return made


def test_every_pair_that_a_statement_asks_for_is_a_cell():
    assert [tuple(cell.values()) for cell in cells(Settings())] == declared.pairs()


def test_schedules_are_of_the_files_and_of_what_learned_and_are_measured_again(run):
    with_files, unseen = ({**cell, **measure(run, cell)} for cell in cells(run.settings))
    assert set(with_files["schedules"]) == {"files", "surrogate", "generalist"}
    assert with_files["missing"] == {"network": NOT_TRAINED}
    files = unpack_episodes(with_files["schedules"]["files"])
    assert len(files) == len(with_files["logged"]) == len(with_files["served"]["files"]) > 40
    assert {len(tiles) for tiles in files} == {256}
    assert unseen["missing"] == {"files": UNSEEN, "surrogate": UNSEEN, "network": NOT_TRAINED}
    assert answers.again(run, with_files)["served"] == with_files["served"]
