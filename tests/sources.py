"""The files of the repository, for tests that read them."""

import importlib.util
import subprocess
from pathlib import Path
from types import ModuleType

REPOSITORY = Path(__file__).resolve().parents[1]


def sources(*endings: str) -> list[Path]:
    """What git tracks, or would track, with one of the endings."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = [REPOSITORY / name for name in listed.stdout.splitlines()]
    return [path for path in paths if path.suffix in endings and path.is_file()]


def module_of(path: str) -> ModuleType:
    """A module of the repository that is in no package."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, REPOSITORY / path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
