"""Rounds of the leaderboard: a digest first, the secret behind it with a release.

The file of a round is ``ROUND/round.toml`` below the board. Its digest is SHA-256 of the round's
name and secret. So a secret cannot be chosen after its instances were played.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pmoss_datasets.checked import check
from pmoss_datasets.domain import Domain, find_domain
from pmoss_datasets.evaluation import NARROW, WIDE
from pmoss_datasets.recipes import MOST_EVALUATIONS
from pmoss_datasets.suite import load_task
from pmoss_env.checks import check_whole
from pmoss_env.errors import DescriptionError, SubmissionError, UnknownNameError
from pmoss_env.files import OPEN_FLAGS, lock, read_text, read_toml, write_atomically
from pmoss_env.machines.importing.toml_text import toml_lines

TIERS = Path(__file__).with_name("tiers.toml")
FILE = "round.toml"
#: How new rounds make the seeds of their instances; files without it are of scheme 1.
SCHEME = 2
#: Bits of an episode's seed, by scheme: those of the first can be tried one by one.
_SEED_BITS = {1: NARROW, 2: WIDE}
#: What anybody may practise with: it is no secret.
PRACTICE = "00" * 32
#: Of rounds and of rows.
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,40}")
_HEX = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Tier:
    """One part of a round.

    Attributes:
        name: "analytic" or "simulated".
        tasks: names of committed tasks.
        episodes: of each task.
        random_schedules: whose mean is score 0, per episode.
        search_budget: evaluations of the search that is score 100, and of searches that play.
        env: arguments of the environment beside the task's own.
    """

    name: str
    tasks: tuple[str, ...]
    episodes: int
    random_schedules: int
    search_budget: int
    env: dict[str, Any] = field(default_factory=dict)

    def env_of(self, task: str) -> dict[str, Any]:
        """Arguments of the environment of a task."""
        return {**load_task(task).env, **self.env}

    def domain_of(self, task: str) -> Domain:
        """The domain of a task."""
        return find_domain(load_task(task).domain)


@dataclass(frozen=True)
class Round:
    """A round as its file tells it.

    Attributes:
        name: of the round, and of its folder.
        digest: SHA-256 of name and secret, 64 hexadecimal digits.
        tiers: what is played.
        secret: 64 hexadecimal digits; empty until the round is revealed.
        entries: digests of the submissions that were registered before.
        scheme: how the seeds of its instances are made, 1 or 2.
    """

    name: str
    digest: str
    tiers: tuple[Tier, ...]
    secret: str = ""
    entries: tuple[str, ...] = ()
    scheme: int = SCHEME

    @property
    def seed_bits(self) -> int:
        """Bits of an episode's seed."""
        return _SEED_BITS[self.scheme]

    def tier(self, name: str) -> Tier:
        """A tier by name; UnknownNameError."""
        tiers = {tier.name: tier for tier in self.tiers}
        if name not in tiers:
            raise UnknownNameError("tier", name, tiers)
        return tiers[name]


def digest_of(name: str, secret: str) -> str:
    """The digest that a round publishes of its secret."""
    return hashlib.sha256(f"pmoss leaderboard\0{name}\0{secret}".encode()).hexdigest()


def evaluation_seed(secret: str, tier: str, task: str) -> int:
    """The seed of a task's episodes, below 2**63."""
    digest = hashlib.sha256(f"{secret}\0{tier}\0{task}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def chance_key(secret: str, tier: str, task: str) -> bytes:
    """32 bytes that a submission's chance derives from. Its process never gets them."""
    return hashlib.sha256(f"chance\0{secret}\0{tier}\0{task}".encode()).digest()


def commit(
    board: Path, name: str, secret_file: Path, tiers: tuple[Tier, ...] | None = None
) -> Round:
    """Begins a round: draws its secret, which only ``secret_file`` gets, and publishes the digest.

    Args:
        secret_file: a new file, which the caller alone can read.
        tiers: what is played; None: what ``tiers.toml`` holds.

    Raises:
        SubmissionError: the round or the file is there already, or the name is none.
    """
    if not NAME.fullmatch(name):
        raise SubmissionError(f"round {name!r}: take small letters, digits and hyphens")
    if (board / name / FILE).exists():
        raise SubmissionError(f"{board / name / FILE}: is there already: take another name")
    secret = secrets.token_hex(32)
    round_ = Round(name, digest_of(name, secret), tiers or _tiers())
    try:
        handle = os.open(secret_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise SubmissionError(f"{secret_file}: is there already: a secret serves once") from error
    with os.fdopen(handle, "w") as file:
        file.write(secret + "\n")
    _write(board, round_)
    return round_


def reveal(board: Path, name: str, secret_file: Path) -> Round:
    """Publishes the secret of a round.

    Raises:
        SubmissionError: the file does not hold the secret behind the digest.
    """
    try:
        secret = read_text(secret_file, 4096).strip()
    except (OSError, ValueError) as error:
        raise SubmissionError(f"{secret_file}: cannot be read: {error}") from error
    with _held(board, name) as round_:
        if not _HEX.fullmatch(secret) or digest_of(name, secret) != round_.digest:
            raise SubmissionError(f"{secret_file}: holds another secret than that of round {name}")
        revealed = replace(round_, secret=secret)
        _write(board, revealed)
    return revealed


def register(board: Path, name: str, digest: str) -> Round:
    """Notes in a round that a submission is there.

    Raises:
        SubmissionError: the round is revealed, perhaps by another command since it was read.
    """
    with _held(board, name) as round_:
        if round_.secret:
            raise SubmissionError(f"round {name}: is revealed: nothing is registered any more")
        if digest in round_.entries:
            return round_
        noted = replace(round_, entries=(*round_.entries, digest))
        _write(board, noted)
    return noted


def rounds_of(board: Path) -> list[Round]:
    """All rounds of a board by name; SubmissionError if one is damaged."""
    return [read_round(board, path.parent.name) for path in sorted(board.glob(f"*/{FILE}"))]


def newest_round(board: Path, *, revealed: bool = False) -> Round:
    """The round whose name comes last; SubmissionError if there is none.

    Args:
        revealed: the last one that is revealed, if there is one: a new round has no rows.
    """
    if not (rounds := rounds_of(board)):
        raise SubmissionError(f"{board}: holds no round: begin one by `pmoss dev round`")
    with_secret = [each for each in rounds if each.secret]
    return with_secret[-1] if revealed and with_secret else rounds[-1]


def read_round(board: Path, name: str) -> Round:
    """The round of a name.

    Raises:
        SubmissionError: there is none, its file is damaged, or secret and digest differ.
    """
    path = board / name / FILE
    if not path.is_file():
        rounds = ", ".join(sorted(file.parent.name for file in board.glob(f"*/{FILE}"))) or "none"
        raise SubmissionError(f"round {name!r}: is not in {board}; known: {rounds}")
    try:
        round_ = read_toml(path, _round)
    except (DescriptionError, UnknownNameError) as error:
        raise SubmissionError(str(error)) from error
    if round_.name != name:
        raise SubmissionError(f"{path}: name = {round_.name!r}: must be that of its folder")
    if round_.secret and digest_of(name, round_.secret) != round_.digest:
        raise SubmissionError(f"{path}: the secret is not the one behind the digest")
    return round_


@contextmanager
def _held(board: Path, name: str) -> Iterator[Round]:
    """A round as it is now, which no other command changes meanwhile."""
    read_round(board, name)
    if sys.platform == "win32":
        yield read_round(board, name)
        return
    folder = os.open(board / name, os.O_RDONLY | OPEN_FLAGS)
    try:
        lock(folder, wait=True)
        yield read_round(board, name)
    finally:
        os.close(folder)


def _tiers() -> tuple[Tier, ...]:
    return read_toml(TIERS, lambda data: tuple(map(_tier, data["tier"])))


def _round(data: dict[str, Any]) -> Round:
    values = {"scheme": 1, "secret": "", "entries": [], **data}
    tiers = values.pop("tier", [])
    check(Round, {**values, "tiers": ()})
    for name in ("digest", "secret"):
        if values[name] and not _HEX.fullmatch(values[name]):
            raise DescriptionError(f"{name} = {values[name]!r}: must be 64 hexadecimal digits")
    if values["scheme"] not in _SEED_BITS:
        raise DescriptionError(
            f"scheme = {values['scheme']}: this version knows {', '.join(map(str, _SEED_BITS))}"
        )
    if not isinstance(tiers, list) or not tiers:
        raise DescriptionError("tier: must be a list of tables")
    values["entries"] = tuple(values["entries"])
    return Round(**values, tiers=tuple(map(_tier, tiers)))


def _tier(data: Any) -> Tier:
    if not isinstance(data, dict):
        raise DescriptionError("tier: must be a table")
    check(Tier, data, "tier: ")
    for key in ("episodes", "random_schedules", "search_budget"):
        check_whole(f"tier: {key}", data[key], 1, MOST_EVALUATIONS)
    for task in data["tasks"]:
        load_task(task)
    return Tier(**{**data, "tasks": tuple(data["tasks"])})


def _write(board: Path, round_: Round) -> None:
    values = asdict(round_)
    tiers = values.pop("tiers")
    lines = [
        "# Written by `pmoss dev round`. The digest is SHA-256 of this round's name and secret.",
        *toml_lines(values),
    ]
    for tier in tiers:
        lines += ["", "[[tier]]", *toml_lines(tier)]
    write_atomically(board / round_.name / FILE, "\n".join(lines) + "\n")
