"""A small dataset with all that formats must keep."""

import subprocess
import sys

import pytest

from pmoss_datasets import Recipe, collect


@pytest.fixture(scope="package")
def dataset(tmp_path_factory):
    task = {
        "machine": "toy",
        "slices": 12,
        "order": "load",
        "interference": "busy_core",
        "constraints": {"max_slices_per_core": 3},
    }
    recipe = Recipe(env=task, episodes=7, seed=4, reference_episodes=3, reference_budget=100)
    return collect(recipe, tmp_path_factory.mktemp("formats") / "dataset")


@pytest.fixture(scope="package")
def unmeasured(tmp_path_factory):
    """A dataset that does not know what every step brought."""
    task = {"machine": "toy", "slices": 8, "measure_every": 4}
    recipe = Recipe(env=task, episodes=2, reference_episodes=0)
    return collect(recipe, tmp_path_factory.mktemp("formats") / "unmeasured")


@pytest.fixture
def converted_on_a_full_disk(dataset):
    """Converts where no file may grow beyond 16 kB: what a full disk says, the kernel says.

    In a process of its own, as HDF5 can take one with it.
    """

    def convert(out, form):
        limited = (
            "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (16384, 16384)); "
            "from pmoss_env.cli import main; main()"
        )
        words = ["data", "convert", str(dataset.path), str(out), "--to", form]
        done = subprocess.run(
            [sys.executable, "-B", "-c", limited, *words],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        # In a pipe the bars of the progress go there too.
        lines = done.stderr.splitlines(keepends=True)
        return done.returncode, "".join(line for line in lines if "━" not in line)

    return convert
