"""What no form can hold, and a disk that is full, leave nothing behind."""

import subprocess
import sys

import pytest

from pmoss_datasets.formats.files import write_d4rl
from pmoss_datasets.formats.minari import to_minari
from pmoss_env.errors import DatasetError

pytest.importorskip("minari")
pytest.importorskip("torch")

from pmoss_datasets.formats import SequenceView


@pytest.mark.parametrize(
    "convert",
    [
        lambda data, folder: write_d4rl(data, folder / "new" / "x.hdf5", "improvement"),
        lambda data, folder: to_minari(data, folder / "new", "improvement"),
        lambda data, folder: SequenceView(data, "improvement")[0],
    ],
)
def test_unmeasured_steps_name_file_and_episode(unmeasured, tmp_path, convert):
    where = f"{unmeasured.path}/data.hdf5: episode 0: throughput: not measured"
    with pytest.raises(DatasetError, match=where):
        convert(unmeasured, tmp_path)
    assert list(tmp_path.iterdir()) == []


#: No file may grow beyond 16 kB: what a full disk says, the kernel says. In a process of its own,
#: as HDF5 can take one with it.
FULL = (
    "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (16384, 16384)); "
    "from pmoss_env.cli import main; main()"
)


@pytest.mark.parametrize("form", ["d4rl", "minari"])
def test_a_full_disk_is_one_line_and_leaves_nothing(dataset, tmp_path, form):
    out = tmp_path / "new" / "x.hdf5" if form == "d4rl" else tmp_path / "new"
    words = ["data", "convert", str(dataset.path), str(out), "--to", form]
    command = [sys.executable, "-B", "-c", FULL, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    target = out if form == "d4rl" else out / dataset.metadata.id
    # In a pipe the bars of the progress go there too.
    lines = [line for line in done.stderr.splitlines() if "\u2501" not in line]
    assert lines == [f"error: {target}: cannot be written: File too large"]
    assert done.returncode == 2 and list(tmp_path.iterdir()) == []
