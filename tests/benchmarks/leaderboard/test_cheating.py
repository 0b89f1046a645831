"""Agents and rows that cheat: each is refused, or plays no better than it could without."""

import json
import py_compile
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from pmoss_benchmarks.leaderboard import confinement
from pmoss_benchmarks.leaderboard.board import check_board, standings
from pmoss_benchmarks.leaderboard.rounds import Round, read_round, register, reveal
from pmoss_benchmarks.leaderboard.submissions import read_submission
from pmoss_benchmarks.leaderboard.submitting import submit
from pmoss_env.errors import PolicyError, SubmissionError
from tests.benchmarks.leaderboard import seed_behind
from tests.benchmarks.leaderboard.conftest import TASK

HandIn = Callable[..., Path]

#: Plays what a search finds on the true instance, if its generator leads back to the episode.
ORACLE = """

class Oracle(First):
    def check_env(self, env):
        self.arguments = env.spec.kwargs

    def plan(self, context, order):
        low, high, *others = seed_behind(context.rng.bit_generator.state)
        if [high, *others] == [2, 0, 0]:
            seed = low
        elif others == [2, 0]:
            seed = high << 32 | low
        else:
            raise LookupError("this generator leads to no seed")
        from pmoss_datasets.domain import find_domain
        from pmoss_env.baselines import local_search
        env = find_domain("spatial").make_env(self.arguments)
        env.reset(seed=seed)
        backend = env.session.new_searchable_backend()
        best = local_search(env.context(np.random.default_rng(1), backend), 2000)
        self.actions = context.machine.tile_of_core[best.schedule.cores[order]].tolist()

    def act(self, observation, action_mask):
        return self.actions.pop(0)
"""


def test_a_generators_state_leads_back_to_its_seed() -> None:
    # The attack itself works.
    for seed in (5, 12345, 4000000000):
        state = np.random.default_rng((seed, 2)).bit_generator.state
        assert seed_behind.seed_behind(state) == [seed, 2, 0, 0]
    state = np.random.default_rng(((7 << 32) + 3, 2)).bit_generator.state
    assert seed_behind.seed_behind(state) == [3, 7, 2, 0]


@pytest.mark.usefixtures("confined")
@pytest.mark.parametrize("scheme", [1, 2])
def test_a_planner_does_not_get_the_episodes_seed(sealed, board, tmp_path, hand_in, scheme):
    folder = hand_in("submitted_module:Oracle")
    module = folder / "submitted_module.py"
    module.write_text(module.read_text() + Path(seed_behind.__file__).read_text() + ORACLE)
    submission = read_submission(folder)
    register(board, sealed.name, submission.digest)
    file = board / sealed.name / "round.toml"
    file.write_text(file.read_text().replace("scheme = 2", f"scheme = {scheme}"))
    revealed = reveal(board, sealed.name, tmp_path / "secret")
    assert revealed.scheme == scheme
    with pytest.raises(PolicyError, match="LookupError: this generator leads to no seed"):
        submit(submission, board, revealed)


def test_bytecode_does_not_stand_in_for_the_registered_source(sealed, board, tmp_path, hand_in):
    folder = hand_in()
    submission = read_submission(folder)
    register(board, sealed.name, submission.digest)
    revealed = reveal(board, sealed.name, tmp_path / "secret")
    source = tmp_path / "other.py"
    source.write_text((folder / "submitted_module.py").read_text() + "\nraise SystemExit('other')")
    kept = folder / "__pycache__" / "submitted_module.cpython-311.pyc"
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(source), str(kept), invalidation_mode=unchecked)
    for refused in (lambda: read_submission(folder), lambda: submit(submission, board, revealed)):
        with pytest.raises(SubmissionError, match="in place of a source: remove it"):
            refused()


def test_the_secret_is_not_below_what_a_submission_reads(played, board, hand_in, monkeypatch):
    revealed, _ = played
    submission = read_submission(hand_in())
    everything = {path.resolve() for path in confinement.readable()}
    # A checkout may lie in any of them.
    for folder in (sys.prefix, sys.base_prefix, "/usr", "/usr/src", "/usr/local", Path.home()):
        assert Path(folder).resolve() not in everything
    monkeypatch.setattr(sys, "prefix", str(board.parent))
    moved = board.rename(board.parent / "lib")
    with pytest.raises(SubmissionError, match=r"lies below .*lib, which submissions may read"):
        submit(submission, moved, revealed)


def test_a_registration_does_not_undo_what_came_while_it_practised(sealed, board, tmp_path):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda digest: register(board, "r1", digest), "abcdefgh"))
    revealed = reveal(board, sealed.name, tmp_path / "secret")
    assert sorted(revealed.entries) == list("abcdefgh")
    # It was read before the secret came.
    with pytest.raises(SubmissionError, match="is revealed: nothing is registered any more"):
        register(board, sealed.name, "z")
    assert read_round(board, "r1") == revealed


@pytest.mark.parametrize("name", ["module.pyc", "module.abi3.so", "module.PYD", "lib.dylib"])
def test_a_folder_holds_no_module_that_cannot_be_read(hand_in: HandIn, name: str) -> None:
    folder = hand_in()
    (folder / "inside").mkdir()
    (folder / "inside" / name).write_bytes(b"")
    with pytest.raises(SubmissionError, match="in place of a source: remove it"):
        read_submission(folder)


def test_a_folder_that_changes_after_the_check_does_not_play(sealed, board, tmp_path, hand_in):
    folder = hand_in()
    submission = read_submission(folder)
    revealed = reveal(board, sealed.name, tmp_path / "secret")
    (folder / "submitted_module.py").write_text("class First: pass")
    with pytest.raises(SubmissionError, match="has changed"):
        submit(submission, board, revealed)


@pytest.mark.usefixtures("confined")
def test_an_agent_runs_from_a_copy(sealed, board, tmp_path, hand_in):
    folder = hand_in()
    module = folder / "submitted_module.py"
    module.write_text(f"{module.read_text()}\nassert not __file__.startswith({str(folder)!r})\n")
    revealed = reveal(board, sealed.name, tmp_path / "secret")
    assert submit(read_submission(folder), board, revealed)


@pytest.fixture
def forger(played: tuple[Round, Path], board: Path) -> Callable[..., str]:
    """Writes the house's rows under other names, and says what check_board() finds."""
    _, house = played
    header, *lines = [json.loads(line) for line in house.read_text().splitlines()]
    best = [line for line in lines if line["policy"] == "local-search"]

    def forge(stem: str, policy: str, entrant: object, *, keeps: bool = False) -> str:
        path = house.with_name(f"{stem}.jsonl")
        rows = [*(lines if keeps else []), *({**line, "policy": policy} for line in best)]
        head = {**header, "rows": len(rows), "notes": {"entrant": entrant}}
        path.write_text("\n".join(json.dumps(line) for line in [head, *rows]) + "\n")
        return "\n".join(check_board(board))

    return forge


def test_only_one_file_is_of_the_house(forger: Callable[..., str], board: Path) -> None:
    house = {"name": "house", "kind": "house"}
    assert "is that of house.jsonl alone" in forger("mine", "mine", house)
    for name in ("exact", "random"):
        message = forger("mine", name, house)
        assert "holds other rows than those of mine" in message
    assert "'mine'" not in str(standings(board, *_first(board)))
    # Under an honest kind: names of the project's policies are its own.
    for name in ("exact", "random", "os-default"):
        message = forger(name, name, {"name": name, "kind": "submission"})
        assert f"{name}: is the name of a rule or a search" in message


def test_the_houses_file_holds_the_projects_policies_alone(forger: Callable[..., str]) -> None:
    message = forger("house", "mine", {"name": "house", "kind": "house"}, keeps=True)
    assert "mine: no rule or search of the project" in message
    message = forger("house", "local-search", {"name": "house", "kind": "house"}, keeps=True)
    assert "local-search: has not every episode once" in message


@pytest.mark.parametrize("name", ["Mine", "mine ", "l\u0440t", "practice", "x" * 42])
def test_a_row_has_a_name_that_a_submission_may_have(forger: Callable[..., str], name: str) -> None:
    assert "is no name of a row" in forger(name, name, {"name": name, "kind": "submission"})


@pytest.mark.parametrize(
    ("entrant", "message"),
    [
        ({"name": "mine", "kind": "rule"}, "entrant: kind: must be agent or submission"),
        ({"name": "mine"}, "entrant: kind: must be agent or submission"),
        ({"name": "other", "kind": "agent"}, "entrant: name: is not that of the file, mine"),
        ("house", "entrant: name"),
        (None, "entrant: name"),
        ([], "entrant: name"),
    ],
)
def test_an_entrant_names_itself(forger: Callable[..., str], entrant: object, message: str) -> None:
    assert message in forger("mine", "mine", entrant)


def test_an_agent_that_nobody_confined_is_not_sealed(forger, board):
    round_, tier = _first(board)
    forger("mine", "mine", {"name": "mine", "kind": "agent", "confined": True, "digest": "1" * 64})
    ranked, problems = standings(board, round_, tier)
    assert problems == []
    assert [standing.sealed for standing in ranked if standing.name == "mine"] == [False]


def _first(board: Path) -> tuple[Round, object]:
    round_ = read_round(board, "r1")
    assert round_.tiers[0].tasks == (TASK,)
    return round_, round_.tiers[0]
