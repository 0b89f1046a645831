"""What is handed in for the leaderboard: a folder with an agent and ``submission.toml``.

::

    name = "my-agent"
    authors = ["A. Author"]
    licence = "Apache-2.0"
    agent = "agent.safetensors"      # or "policy:Mine", or "policy:Mine@agent.safetensors"
    tasks = ["skylake-x-8n-btree-ycsb-a-busy-core"]   # optional: all tasks of the round

    [agents]                         # optional: another agent for some tasks
    milan-nps4-btree-scans-cache-thrash = "scans.safetensors"

A checkpoint of a known agent is data: nothing of it is executed. ``policy:Mine`` names the class
``Mine`` of ``policy.py`` in the folder. It is executed in a process of its own, from a copy of the
files that the digest covers.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.machinery import all_suffixes
from pathlib import Path
from typing import Any

from pmoss_benchmarks.leaderboard.rounds import NAME
from pmoss_datasets.checked import check
from pmoss_env.errors import DescriptionError, SubmissionError, UnknownNameError
from pmoss_env.files import read_bytes, read_toml

FILE = "submission.toml"
SUFFIX = ".safetensors"
#: Most files of a folder, and most bytes of one of them.
MOST_FILES, MOST_BYTES = 200, 64 << 20
_POLICY = re.compile(r"(?P<module>[A-Za-z_]\w*):(?P<name>[A-Za-z_]\w*)(?:@(?P<file>.+))?")
#: Names of our own rows.
RESERVED = ("house", "practice")
#: What Python loads in place of a module's source: it says nothing to who reads the source.
_UNREADABLE = {*all_suffixes(), ".pyc", ".pyo", ".so", ".pyd", ".dll", ".dylib"} - {".py"}


@dataclass(frozen=True)
class Agent:
    """How an agent is named.

    Attributes:
        module: of the folder, which is executed; empty where none is.
        name: of the class in it.
        file: checkpoint; None without.
    """

    module: str
    name: str
    file: Path | None

    @property
    def word(self) -> str:
        """What pmoss_agents.find_policy() takes."""
        if not self.module:
            return str(self.file)
        return f"{self.module}:{self.name}" + (f"@{self.file}" if self.file else "")


@dataclass(frozen=True)
class Submission:
    """A checked folder.

    Attributes:
        folder: where it lies.
        name: of the row.
        authors: who made it.
        licence: of the agent.
        agents: by task; "" is that of all other tasks.
        tasks: that it plays; empty: all.
        digest: SHA-256 over names and contents of the folder's files.
    """

    folder: Path
    name: str
    authors: tuple[str, ...]
    licence: str
    agents: dict[str, Agent]
    tasks: tuple[str, ...]
    digest: str

    def agent(self, task: str) -> Agent | None:
        """The agent that plays a task; None without one."""
        if self.tasks and task not in self.tasks:
            return None
        return self.agents.get(task, self.agents.get(""))

    @property
    def executed(self) -> list[Path]:
        """The modules of the folder that are executed, and what they import."""
        modules = dict.fromkeys(agent.module for agent in self.agents.values() if agent.module)
        return [self.folder / f"{module}.py" for module in modules]

    @contextmanager
    def copied(self) -> Iterator[Submission]:
        """A private copy, for reading alone, of the files that the digest covers.

        Raises:
            SubmissionError: the folder has changed since it was checked.
        """
        with tempfile.TemporaryDirectory(prefix="pmoss-submission-") as name:
            folder = Path(name)
            for path in _files(self.folder):
                copy = folder / path.relative_to(self.folder)
                copy.parent.mkdir(parents=True, exist_ok=True)
                try:
                    copy.write_bytes(read_bytes(path, MOST_BYTES))
                except OSError as error:
                    raise SubmissionError(str(error)) from error
                copy.chmod(0o400)
            for root, *_ in os.walk(folder):
                os.chmod(root, 0o500)
            copied = read_submission(folder)
            if copied.digest != self.digest:
                raise SubmissionError(f"{self.folder}: has changed while it was read: try again")
            yield copied

    @property
    def notes(self) -> dict[str, Any]:
        """What its rows say of it."""
        return {
            "name": self.name,
            "kind": "submission",
            "authors": list(self.authors),
            "licence": self.licence,
            "digest": self.digest,
        }


@dataclass(frozen=True)
class _File:
    """The keys of ``submission.toml``."""

    name: str
    authors: list[str]
    licence: str
    agent: str = ""
    tasks: list[str] = field(default_factory=list)
    agents: dict[str, str] = field(default_factory=dict)


def is_name(text: str) -> bool:
    """Whether a row of another entrant than the project may have a name."""
    return NAME.fullmatch(text) is not None and text not in RESERVED


def read_submission(folder: str | Path) -> Submission:
    """A checked folder. Nothing of it is executed.

    Raises:
        SubmissionError: names the file or the key, and the reason.
    """
    folder = Path(folder).resolve()
    if not folder.is_dir():
        raise SubmissionError(f"{folder}: is no folder")
    files = sorted(_files(folder))
    if not (folder / FILE).is_file():
        raise SubmissionError(f"{folder}: has no {FILE}, which says what the agent is")
    try:
        file = read_toml(folder / FILE, _file)
        digest = _digest(folder, files)
    except (DescriptionError, UnknownNameError, OSError) as error:
        raise SubmissionError(str(error)) from error
    words = {**({"": file.agent} if file.agent else {}), **file.agents}
    where = folder / FILE
    if not words:
        raise SubmissionError(f"{where}: agent: is missing, and [agents] names none")
    if not file.agent and not file.tasks:
        raise SubmissionError(f"{where}: name the tasks, or an agent for all of them")
    if lacking := [task for task in file.tasks if task not in words and not file.agent]:
        raise SubmissionError(f"{where}: agents: names none for {', '.join(lacking)}")
    return Submission(
        folder=folder,
        name=file.name,
        authors=tuple(file.authors),
        licence=file.licence,
        agents={task: _agent(folder, word) for task, word in words.items()},
        tasks=tuple(file.tasks),
        digest=digest,
    )


def _file(data: dict[str, Any]) -> _File:
    check(_File, data)
    file = _File(**data)
    if not is_name(file.name):
        raise DescriptionError(
            f"name = {file.name!r}: take small letters, digits and hyphens, and none of "
            f"{', '.join(RESERVED)}"
        )
    for key, texts in (("authors", file.authors), ("licence", [file.licence])):
        if not texts or not all(text.strip() and text.isprintable() for text in texts):
            raise DescriptionError(f"{key}: must be there, and printable")
    return file


def _agent(folder: Path, word: str) -> Agent:
    """An agent as the file names it."""
    if not word.isprintable():
        raise SubmissionError(f"{folder}: agent = {word!r}: must be printable")
    if match := _POLICY.fullmatch(word):
        module = match["module"]
        if not os.path.isfile(folder / f"{module}.py"):
            raise SubmissionError(f"{folder}: agent = {word!r}: there is no {module}.py")
        if module in sys.modules or importlib.util.find_spec(module) is not None:
            raise SubmissionError(
                f"{folder}: agent = {word!r}: a module {module} is installed: name yours otherwise"
            )
        file = _checkpoint(folder, match["file"]) if match["file"] else None
        return Agent(module, match["name"], file)
    return Agent("", "", _checkpoint(folder, word))


def _checkpoint(folder: Path, name: str) -> Path:
    path = (folder / name).resolve()
    if not path.is_relative_to(folder) or not os.path.isfile(path):
        raise SubmissionError(f"{folder}: agent = {name!r}: is no file of the folder")
    if path.suffix != SUFFIX:
        raise SubmissionError(
            f"{folder}: agent = {name!r}: must be a checkpoint ({SUFFIX}), module:Class of a "
            "module in the folder, or both with an @ between"
        )
    return path


def _files(folder: Path) -> Iterator[Path]:
    """All files; SubmissionError for what is no plain file, or would hide a module's source."""
    count = 0
    for root, folders, names in os.walk(folder):
        for name in [*folders, *names]:
            if (path := Path(root, name)).is_symlink():
                raise SubmissionError(f"{path}: is a link: put the file itself there")
            if path.suffix.lower() in _UNREADABLE or name == "__pycache__":
                raise SubmissionError(
                    f"{path}: Python would load it in place of a source: remove it. Its digest "
                    "would not be of what is read"
                )
        for name in names:
            count += 1
            if count > MOST_FILES:
                raise SubmissionError(f"{folder}: has more than {MOST_FILES} files")
            if not (path := Path(root, name)).is_file():
                raise SubmissionError(f"{path}: is no plain file")
            yield path


def _digest(folder: Path, files: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        content = hashlib.sha256(read_bytes(path, MOST_BYTES)).hexdigest()
        digest.update(os.fsencode(f"{path.relative_to(folder).as_posix()}\0{content}\0"))
    return digest.hexdigest()
