"""Starts a compiler, unless another build of the native code has made the same object already.

Usage: reuse.py BUILD COMPILER ARGUMENT...

BUILD is a build of this checkout, such as that of ``./run``. Its object is taken where the source,
its headers and the flags are the same, and none of them is newer. Where warnings lead to is no
matter, for the code is the same.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

NATIVE = Path(__file__).resolve().parents[2] / "native"
#: Headers are generated from it.
TABLE = NATIVE.parent / "pmoss_env" / "counters.toml"


def sources_of(build: Path, target: Path) -> list[Path]:
    """The files of this checkout that an object was made of; none if the build does not know."""
    words = [Path(sys.executable).with_name("ninja"), "-C", build, "-t", "deps", target]
    output = subprocess.run(words, capture_output=True, text=True)
    paths = [(build / line.strip()).resolve() for line in output.stdout.splitlines()[1:]]
    return [path for path in paths if path.is_relative_to(NATIVE) and path.is_file()]


def compiled_together(source: Path) -> list[Path]:
    """What a compiler is given: a source, or those that CMake's unity build includes in one."""
    if source.parent.name != "Unity":
        return [source]
    return [Path(path) for path in re.findall(r'^#include "(.+)"$', source.read_text(), re.M)]


def native_folder(source: Path) -> Path | None:
    """The folder native of the checkout that a source is compiled in."""
    folders = compiled_together(source)[0].parents
    return next((folder for folder in folders if folder.name == NATIVE.name), None)


def flags(words: list[str]) -> list[str]:
    """The compiler and the flags that decide what code it makes; folders are left out."""
    kept = [str(Path(words[0]).resolve())]
    skip = False
    for word in words[1:]:
        if skip or word.startswith(("-I", "-M", "-isystem")) or word in ("-Werror", "-c", "-o"):
            skip = word in ("-MF", "-MT", "-MQ", "-isystem", "-o", "-c")
        else:
            kept.append(word)
    return kept


def same_object(build: Path, words: list[str]) -> Path | None:
    """The object of the other build, or None if it is not the same or not there."""
    target, source = (Path(words[words.index(option) + 1]) for option in ("-o", "-c"))
    made = build / target
    native = native_folder(source)
    if native is None or not made.exists():
        return None
    sources = sources_of(build, target)
    own = {NATIVE / path.relative_to(native) for path in compiled_together(source)}
    if own != {path for path in sources if path.suffix == ".cpp"}:
        return None
    for ours in (TABLE, *sources):
        theirs = native.parent / ours.relative_to(NATIVE.parent)
        if ours.stat().st_mtime > made.stat().st_mtime or not theirs.exists():
            return None
        if ours.read_bytes() != theirs.read_bytes():
            return None
    for command in json.loads((build / "compile_commands.json").read_text()):
        command_words = shlex.split(command["command"])
        if Path(command_words[command_words.index("-o") + 1]) == target:
            command_words = (
                command_words[1:] if Path(command_words[0]).name == "ccache" else command_words
            )
            return made if flags(command_words) == flags(words) else None
    return None


def main(build: Path, words: list[str]) -> None:
    """Takes the object and says what it depends on, or becomes the compiler."""
    if "-o" not in words or "-c" not in words or (made := same_object(build, words)) is None:
        ccache = shutil.which("ccache")
        words = [ccache, *words] if ccache else words
        os.execvp(words[0], words)
    target, source = (Path(words[words.index(option) + 1]) for option in ("-o", "-c"))
    shutil.copyfile(made, target)
    if "-MF" in words:
        native = native_folder(source)
        assert native is not None  # or there were no such object
        used = [TABLE, *sources_of(build, target)]
        own = [native.parent / path.relative_to(NATIVE.parent) for path in used]
        rule = ": ".join([str(target), " ".join(str(path).replace(" ", "\\ ") for path in own)])
        Path(words[words.index("-MF") + 1]).write_text(f"{rule}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
