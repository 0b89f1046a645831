"""Tasks in jobs that submitit starts, on this host and through the commands of Slurm."""

import os
import signal
import stat
import sys
from pathlib import Path

import pytest

from pmoss_datasets import worker_jobs
from pmoss_datasets.executors import run_tasks
from pmoss_env.errors import BackendError, DescriptionError, MissingExtraError


class Doubling:
    """Doubles; what is named ends its process, a file ends it once, and -1 fails."""

    def __call__(self, task: object) -> object:
        if isinstance(task, Path):
            if not task.exists():
                task.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return task.name
        if task == 13:
            os._exit(1)
        if task == -1:
            raise DescriptionError("task -1")
        return 2 * task

    def close(self) -> None:
        """Nothing is held."""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own, which jobs import from, too."""
    pytest.importorskip("submitit", reason="the extra slurm is not installed")
    monkeypatch.chdir(tmp_path)
    path = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, sys.path)])
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.setattr(worker_jobs, "LOOK", 0.3)
    return tmp_path


def in_jobs(tasks, address="local", processes=2):
    return run_tasks(Doubling, tasks, executor="slurm", address=address, processes=processes)


def test_killed_jobs_cost_their_tasks_and_nothing_else(here: Path) -> None:
    # Both of two jobs are killed.
    with pytest.warns(RuntimeWarning, match="a job was lost: its task goes to another"):
        results = dict(in_jobs([1, here / "once", here / "too", 2]))
    assert results == {1: 2, here / "once": "once", here / "too": "too", 2: 4}
    assert list((here / "runs/jobs").iterdir()) == []


def test_errors_of_tasks_arrive_and_a_task_that_ends_its_jobs_is_blamed(here: Path) -> None:
    with pytest.raises(DescriptionError, match="task -1"):
        list(in_jobs([1, -1]))
    with pytest.warns(RuntimeWarning), pytest.raises(BackendError, match="task 13 has ended 3"):
        list(in_jobs([13], processes=1))


def test_jobs_that_cannot_begin_are_said(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "socket.py").write_text("raise ImportError('nothing can be imported')\n")
    monkeypatch.setenv("PYTHONPATH", f"{here}{os.pathsep}{os.environ['PYTHONPATH']}")
    with pytest.raises(BackendError, match="jobs end before they begin"):
        list(in_jobs([1], processes=1))


#: Slurm's commands, as far as submitit asks: jobs run at once, each in the background.
COMMANDS = {
    "sbatch": """#!/bin/sh
echo 7 >> "$FAKE/ids"; id=$((100 + $(wc -l < "$FAKE/ids")))
grep '^#SBATCH' "$1" >> "$FAKE/options"
last=$(sed -n 's/^#SBATCH --array=0-\\([0-9]*\\).*/\\1/p' "$1")
for task in $(seq 0 "${last:-0}"); do
  name=$id${last:+_$task}
  ( SLURM_JOB_ID=$name SLURM_JOB_NUM_NODES=1 SLURM_NTASKS=1 SLURM_NODEID=0 SLURM_PROCID=0 \\
    SLURM_LOCALID=0 SLURM_JOB_NODELIST=node sh "$1"; echo "$name" >> "$FAKE/ended" ) \\
    > "$FAKE/$name.log" 2>&1 &
done
echo "Submitted batch job $id"
""",
    "srun": '#!/bin/sh\nwhile [ "${1#/}" = "$1" ] || [ ! -x "$1" ]; do shift; done\nexec "$@"\n',
    "sacct": """#!/bin/sh
echo 'JobID|State|NodeList'
for log in "$FAKE"/*.log; do
  name=$(basename "$log" .log)
  if grep -qx "$name" "$FAKE/ended"; then state=FAILED; else state=RUNNING; fi
  echo "$name|$state|node"
done
""",
    "scancel": "#!/bin/sh\n",
}


def test_slurm_gets_an_array_of_jobs_and_replaces_what_is_lost(here, monkeypatch):
    with pytest.raises(BackendError, match="no Slurm on this host: sbatch is missing"):
        list(in_jobs([1], address=None))
    folder = here / "slurm"
    folder.mkdir()
    (folder / "ended").touch()
    for name, text in COMMANDS.items():
        (folder / name).write_text(text)
        (folder / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("FAKE", str(folder))
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr("socket.gethostname", lambda: "localhost")
    with pytest.warns(RuntimeWarning, match="a job was lost"):
        results = dict(in_jobs([1, here / "once", 2], address=None))
    assert results == {1: 2, here / "once": "once", 2: 4}
    options = (folder / "options").read_text()
    assert "--array=0-1%2" in options
    assert "--job-name=pmoss" in options


def test_what_is_wrong_is_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(MissingExtraError, match=r"'\.\[slurm\]'"):
        list(in_jobs([1]))
    monkeypatch.undo()
    pytest.importorskip("submitit", reason="the extra slurm is not installed")
    with pytest.raises(DescriptionError, match="address 'cloud': of jobs it is slurm or local"):
        list(in_jobs([1], address="cloud"))
