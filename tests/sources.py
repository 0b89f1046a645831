"""The files of the repository, for tests that read them."""

import subprocess
from pathlib import Path

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
