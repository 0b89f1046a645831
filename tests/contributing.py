"""Reads the stories of CONTRIBUTING.md and does what they say in a copy of the repository."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import pmoss_env._native
from tests.native.builds import reusing

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGES = {
    "pmoss_env": ".",
    "pmoss_datasets": "datasets",
    "pmoss_agents": "agents",
    "pmoss_benchmarks": "benchmarks",
}
_BLOCK = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: Takes out the finder of an editable installation, which would lead back to the original.
_SITE = """
import sys
sys.meta_path[:] = [f for f in sys.meta_path if type(f).__module__.startswith("_editable") is False]
"""


@dataclass
class Story:
    """One section of CONTRIBUTING.md.

    Attributes:
        title: its heading.
        files: new files by path, relative to the repository.
        changes: unified diffs of files that are there.
        commands: shell lines, in order.
    """

    title: str
    files: dict[str, str] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)


def stories() -> dict[str, Story]:
    """The stories by their headings, which begin with "Add"."""
    by_title = {}
    text = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for section in re.split(r"^### (?=Add )", text, flags=re.MULTILINE)[1:]:
        title, _, body = section.partition("\n")
        body = re.split(r"^##+ ", body, flags=re.MULTILINE)[0]
        assert title not in by_title, f"{title} twice"
        story = by_title[title] = Story(title)
        for language, path, block in _BLOCK.findall(body):
            if path:
                assert path not in story.files, f"{title}: {path} twice"
                story.files[path] = block
            elif language == "diff":
                story.changes.append(block)
            elif language == "sh":
                story.commands += block.replace("\\\n", " ").splitlines()
            else:
                raise AssertionError(f"{title}: a block in {language} without file=")
    return by_title


class Copy:
    """A copy of the repository that runs by itself, beside the one that is tested."""

    def __init__(self, folder: Path) -> None:
        """Copies what git tracks or would track, and the native module that is in use."""
        self.folder = folder
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard", "-z"],
            cwd=REPOSITORY,
            capture_output=True,
            check=True,
        )
        for name in listed.stdout.decode().split("\0"):
            if not name or name.startswith("benchmarks/results/"):
                continue
            source = REPOSITORY / name
            if source.is_file():
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)
                target.chmod(source.stat().st_mode)
        (folder / "benchmarks" / "results").mkdir()
        native = Path(pmoss_env._native.__file__)
        shutil.copyfile(native, folder / "pmoss_env" / native.name)
        # The copy's own entry points: of what its pyproject.toml says.
        version = pmoss_env.__version__
        about = folder / "site" / f"pmoss_env-{version}.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text(f"Name: pmoss-env\nVersion: {version}\n")
        (folder / "site" / "sitecustomize.py").write_text(_SITE)
        self._about = about
        self.write_entry_points()
        bin_folder = folder / "bin"
        bin_folder.mkdir()
        # A link to the interpreter would lose the packages of its virtual environment.
        for name, words in (("pmoss", " -m pmoss_env"), ("python", "")):
            program = bin_folder / name
            program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)}{words} "$@"\n')
            program.chmod(0o755)

    def write_entry_points(self) -> None:
        """Makes the entry points of the copy's pyproject.toml visible, as an installation does."""
        project = tomllib.loads((self.folder / "pyproject.toml").read_text())["project"]
        lines = []
        for group, names in project.get("entry-points", {}).items():
            lines.append(f"[{group}]")
            lines += [f"{name} = {place}" for name, place in names.items()]
        (self._about / "entry_points.txt").write_text("\n".join(lines) + "\n")

    def run(self, command: str, timeout: float = 600) -> str:
        """Runs a line of shell in the copy; AssertionError with what it printed if it fails."""
        paths = [self.folder / "site", *(self.folder / place for place in PACKAGES.values())]
        done = subprocess.run(
            ["sh", "-ec", command],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=timeout,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(map(str, paths)),
                "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
                "COLUMNS": "200",
                # What is the same in the copy need not be compiled again.
                "CMAKE_CXX_COMPILER_LAUNCHER": ";".join(reusing()),
            },
            check=False,
        )
        output = done.stdout + done.stderr
        assert done.returncode == 0, f"{command}\n{output[-6000:]}"
        return output

    def do(self, story: Story) -> str:
        """Makes the story's files and changes, runs its commands, and returns what they printed."""
        for path, text in story.files.items():
            target = self.folder / path
            assert not target.exists(), f"{story.title}: {path} is there already"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        for change in story.changes:
            self._change(story.title, change)
        self.write_entry_points()
        return "".join(self.run(command) for command in story.commands)

    def _change(self, title: str, diff: str) -> None:
        """Applies a diff by its context, which must stand in the file exactly once."""
        first, *hunks = re.split(r"^@@.*\n", diff, flags=re.MULTILINE)
        named = re.search(r"^\+\+\+ (?:b/)?(\S+)$", first, re.MULTILINE)
        assert named, f"{title}: a diff without a +++ line"
        path = self.folder / named[1]
        text = path.read_text()
        for hunk in hunks:
            lines = [(line[:1], line[1:]) for line in hunk.splitlines(keepends=True)]
            before = "".join(rest for sign, rest in lines if sign != "+")
            after = "".join(rest for sign, rest in lines if sign != "-")
            assert text.count(before) == 1, f"{title}: {named[1]} has not once\n{before}"
            text = text.replace(before, after)
        path.write_text(text)
