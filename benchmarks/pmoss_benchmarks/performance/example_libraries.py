"""The example libraries of native/examples/plugins, built as their first lines say."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pmoss_benchmarks.performance.native_programs import REPOSITORY, run_program
from pmoss_env import get_include
from pmoss_env.errors import BackendError

FOLDER = REPOSITORY / "native" / "examples" / "plugins"


@dataclass(frozen=True)
class Example:
    """One example, a file that is a whole library.

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
        """Compiles it into a folder.

        Args:
            folder: that is there.
            *words: for the compiler, instead of "-O2".
            compiler: its command.

        Raises:
            BackendError: a package is missing, or the compiler fails.
        """
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
    """The examples by name; {} without a source checkout."""
    found = {}
    for source in sorted(FOLDER.glob("*.cpp")):
        text = source.read_text()
        head = " ".join(re.findall(r"^//\s?(.*)$", text.partition("#include")[0], re.MULTILINE))
        if " c++ " not in head:
            continue  # CMake builds it
        package = re.search(r"Debian: ([\w+-]+)\.", head)
        others = [name for name in re.findall(r"#include <([^>]+)>", text) if "." in name]
        header = [name for name in others if not re.match(r"pmoss/|sys/|unistd", name)]
        found[source.stem] = Example(
            source.stem,
            source,
            tuple(re.findall(r"-l\w+", head)),
            package[1] if package else "",
            header[0] if package else "",
        )
    return found
