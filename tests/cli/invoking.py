"""Running the program as a user does."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PMOSS = Path(sys.executable).with_name("pmoss")


def pmoss_json(*words: str) -> Any:
    """What other programs read: progress and warnings go elsewhere."""
    done = subprocess.run([str(PMOSS), *words, "--json"], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def pmoss(*words: str, status: int = 0, timeout: float = 300) -> str:
    done = subprocess.run(
        [str(PMOSS), *words],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, "COLUMNS": "200"},
        check=False,
    )
    output = done.stdout + done.stderr
    assert done.returncode == status, output
    assert "Traceback" not in output
    return output
