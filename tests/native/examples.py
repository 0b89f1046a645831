"""The example libraries, for the tests that need them."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from pmoss_benchmarks.performance.programs import run_program
from pmoss_env import get_include
from pmoss_env.errors import BackendError
from tests.native.builds import REPOSITORY, REQUIRED


@dataclass(frozen=True)
class Example:
    """An example of a user's index: a file that is a whole library.

    Attributes:
        name: of the file, without its suffix.
        source: the file.
        links: words for the compiler, such as "-llmdb".
        package: Debian's, which has the header and what is linked; empty if nothing is needed.
        header: of that package, below /usr/include; likewise.
    """

    name: str
    source: Path
    links: tuple[str, ...]
    package: str
    header: str

    def missing(self) -> str:
        """What must be installed to build it; empty if nothing is missing."""
        if not self.header or (Path("/usr/include") / self.header).exists():
            return ""
        return f"{self.header} is missing: apt-get install {self.package}"

    def build(self, folder: Path, *words: str, compiler: str = "c++") -> Path:
        """Compiles it into a folder; the words stand in place of -O2."""
        if self.missing():
            raise BackendError(self.missing())
        library = folder / f"{self.name}.so"
        run_program(
            *(compiler, "-std=c++20", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"),
            *(words or ("-O2",)),
            *(f"-I{get_include()}", self.source, "-o", library, *self.links),
        )
        return library


def examples() -> dict[str, Example]:
    """The examples by name, as their first lines say."""
    named = {}
    for source in sorted((REPOSITORY / "native" / "examples" / "plugins").glob("*.cpp")):
        text = source.read_text()
        head = " ".join(re.findall(r"^//\s?(.*)$", text.partition("#include")[0], re.MULTILINE))
        if " c++ " not in head:
            continue  # CMake builds it
        package = re.search(r"Debian: ([\w+-]+)\.", head)
        others = [name for name in re.findall(r"#include <([^>]+)>", text) if "." in name]
        header = [name for name in others if not re.match(r"pmoss/|sys/|unistd", name)]
        named[source.stem] = Example(
            source.stem,
            source,
            tuple(re.findall(r"-l\w+", head)),
            package[1] if package else "",
            header[0] if package else "",
        )
    return named


EXAMPLES = examples()


def need_example(example: Example) -> None:
    """Skips the test at hand where its package is missing, or fails it where it is required."""
    if not example.missing():
        return
    if os.environ.get(REQUIRED, "") not in ("", "0"):
        pytest.fail(example.missing())
    pytest.skip(f"NOT RUN: {example.missing()}")
