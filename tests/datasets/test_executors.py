"""Tasks are done whatever the processes, on this host, on Ray, and in jobs of Slurm."""

import multiprocessing
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from pmoss_datasets import Recipe, collect, executors, worker_jobs
from pmoss_datasets.executors import SERVER, run_tasks
from pmoss_env.errors import (
    BackendError,
    DescriptionError,
    MissingExtraError,
    PmossError,
    TaskError,
    UnknownNameError,
    WorkersLostError,
)


class Doubling:
    """Doubles; ends the process at a task of 13, and fails at -1."""

    def __call__(self, task: int) -> int:
        if task == 13:
            os._exit(1)
        if task < 0:
            raise DescriptionError(f"task {task}")
        return 2 * task

    def close(self) -> None:
        """Nothing is held."""


@pytest.mark.parametrize("processes", [1, 2])
def test_every_task_is_done_once(processes: int) -> None:
    results = dict(run_tasks(Doubling, range(5), processes=processes))
    assert results == {0: 0, 1: 2, 2: 4, 3: 6, 4: 8}


@pytest.mark.parametrize("processes", [1, 2])
def test_errors_of_tasks_arrive_as_they_are(processes: int) -> None:
    with pytest.raises(DescriptionError, match="task -1"):
        list(run_tasks(Doubling, [1, -1], processes=processes))


def test_a_killed_worker_is_a_typed_error() -> None:
    with pytest.raises(PmossError, match=r"worker process was killed: .*status 1"):
        list(run_tasks(Doubling, [13, 1, 2], processes=2))


def test_no_thread_shares_a_lock_with_the_one_that_ctrl_c_interrupts() -> None:
    before = threading.active_count()
    for _ in run_tasks(Doubling, range(5), processes=2):
        assert threading.active_count() == before


def test_who_leaves_early_leaves_no_process() -> None:
    results = run_tasks(Doubling, range(10_000), processes=2)
    next(results)
    assert len(multiprocessing.active_children()) == 2
    results.close()
    assert multiprocessing.active_children() == []


class Odd(Exception):
    """An error that cannot be sent."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and {second}")


class Failing(Doubling):
    """Fails as the task says: when it is made or when it works."""

    def __init__(self, at_once: bool) -> None:
        if at_once:
            raise DescriptionError("not to be made")

    def __call__(self, task: int) -> int:
        raise Odd(task, task)


def test_errors_that_cannot_be_sent_are_reported() -> None:
    with pytest.raises(RuntimeError, match=r"Odd: (1 and 1|2 and 2)"):
        list(run_tasks(partial(Failing, False), [1, 2], processes=2))
    with pytest.raises(DescriptionError, match="not to be made"):
        list(run_tasks(partial(Failing, True), [1, 2], processes=2))


#: What other processes import from.
IMPORTED = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, sys.path)])
#: Interrupts itself at the given call of a function, whichever that is.
_INTERRUPTED = """
import os, signal, sys
from pmoss_datasets.executors import run_tasks
from tests.datasets.test_executors import Doubling

calls = int(sys.argv[1])
def count(frame, event, argument):
    global calls
    calls -= event in ("call", "c_call")
    if not calls:
        sys.setprofile(None)
        os.kill(os.getpid(), signal.SIGINT)

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.setprofile(count)
    try:
        results = list(run_tasks(Doubling, range(100, 400), processes=2))
    except KeyboardInterrupt:
        print("interrupted")
    else:
        print("ended", len(results))
"""


@pytest.mark.parametrize("call", [300, 1500, 4000, 7000])
def test_ctrl_c_at_any_moment_ends_all(call: int, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(_INTERRUPTED)
    done = subprocess.run(
        [sys.executable, str(script), str(call)],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": IMPORTED},
    )
    assert done.stdout == "interrupted\n", done.stderr
    assert done.stderr == ""


def test_impossible_executors_are_refused() -> None:
    run = partial(run_tasks, Doubling, [1])
    with pytest.raises(UnknownNameError, match="executor"):
        run(executor="sluurm")
    for processes, executor in ((0, "processes"), (10**6, "processes"), (-1, "ray")):
        with pytest.raises(DescriptionError, match=f"processes = {processes}"):
            run(executor=executor, processes=processes)


class Lost(Exception):
    """The error of an actor that is gone."""


class Unavailable(Lost):
    """The error of an actor that cannot be reached."""


class FakeRay:
    """A cluster of one node whose actors end as arguments say, to see what becomes of their tasks.

    Args:
        ends: numbers of the tasks, in the order in which they are given, that end their actor.
        node_dies: whether the node goes with the first of them, and all that it has.
        answers: whether actors answer before they have a task.
    """

    def __init__(self, ends, node_dies=False, answers=True):
        self.exceptions = SimpleNamespace(
            RayActorError=Lost,
            ActorUnavailableError=Unavailable,
            RayTaskError=type("Other", (Exception,), {}),
        )
        self.ends, self.node_dies, self.answers = set(ends), node_dies, answers
        self.calls = self.actors = 0
        self.alive = True

    def cluster_resources(self):
        return {"CPU": 2}

    def nodes(self):
        return [{"Alive": self.alive, "NodeID": "node", "Resources": {"CPU": 1}}]

    def remote(self, cls):
        def make(make_work):
            self.actors += 1
            actor = SimpleNamespace(lives=self.answers, asked=0)

            def node():
                actor.asked += 1
                if actor.asked == 2:  # at first the cluster does not know what became of it
                    raise Unavailable("no answer")
                if not actor.lives:
                    raise Lost("it died")
                return "node"

            def do(task):
                self.calls += 1
                if self.calls in self.ends:
                    actor.lives, self.alive = False, not self.node_dies
                    raise Unavailable("no answer")
                return make_work()(task)

            actor.node = SimpleNamespace(remote=lambda: node)
            actor.do = SimpleNamespace(remote=lambda task: partial(do, task))
            return actor

        return SimpleNamespace(options=lambda **needs: SimpleNamespace(remote=make))

    def wait(self, references, num_returns, timeout):
        return references[:1], references[1:]

    def get(self, reference):
        return reference()

    def kill(self, actor):
        pass


def over(ray, results, processes=1):
    tasks = executors._over_actors(ray, lambda: lambda t: t * t, [1, 2, 3], processes, False)
    results.update(tasks)
    return results


def test_a_lost_actor_is_reported_and_replaced():
    ray = FakeRay(ends=[2])
    with pytest.warns(RuntimeWarning, match="a worker on the Ray cluster was lost: .* 1 are left"):
        assert over(ray, {}) == {1: 1, 2: 4, 3: 9}
    assert ray.actors == 2


def test_without_a_living_node_no_task_is_to_blame():
    results = {}
    with pytest.raises(WorkersLostError, match=r"lost its last node: it died; .* run this again"):
        over(FakeRay(ends=[2], node_dies=True), results)
    assert results == {1: 1}


def test_actors_that_never_answer_are_no_task_s_fault():
    with pytest.warns(RuntimeWarning), pytest.raises(WorkersLostError, match="before they begin"):
        over(FakeRay(ends=[], answers=False), {})


def test_a_task_that_ends_every_actor_is_blamed_when_all_others_are_done():
    results = {}
    with pytest.warns(RuntimeWarning), pytest.raises(TaskError, match="task 1 has ended 3 workers"):
        over(FakeRay(ends=[1, 2, 3]), results)
    assert results == {2: 4, 3: 9}


TOY = {"machine": "toy", "slices": 8}


@pytest.mark.heavy
def test_a_local_cluster_gives_the_same_bits_and_needs_servers_for_hardware(tmp_path):
    ray = pytest.importorskip("ray")
    recipe = Recipe(env=TOY, episodes=5, seed=5, reference_episodes=2, reference_budget=50)
    local = collect(recipe, tmp_path / "here")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        on_ray = collect(recipe, tmp_path / "there", executor="ray", processes=2)
        assert on_ray.metadata == local.metadata
        real = Recipe(env={"backend": "hardware", "machine": "host"}, episodes=1)
        with pytest.raises(BackendError, match=f"declares the resource '{SERVER}'"):
            collect(real, tmp_path / "real", executor="ray")
        wrong = Recipe(env={"machine": "toi"}, episodes=1, reference_episodes=0)
        with pytest.raises(UnknownNameError, match="toi"):
            collect(wrong, tmp_path / "wrong", executor="ray", processes=1)
    finally:
        ray.shutdown()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "there"]


@pytest.mark.heavy
def test_killed_nodes_cost_their_tasks_and_blame_none():
    pytest.importorskip("ray")
    import ray
    from ray.cluster_utils import Cluster

    # In here, so that it is sent whole: workers cannot import this file.
    class Slow:
        def __call__(self, task):
            if task == "kills":
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(0.2)
            return task

        def close(self):
            """Nothing is held."""

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    try:
        nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
        ray.init(address=cluster.address, log_to_driver=False)
        with pytest.warns(RuntimeWarning), pytest.raises(TaskError, match="'kills' has ended 3"):
            done = []
            for task, _ in run_tasks(Slow, [*range(5), "kills"], executor="ray", processes=2):
                done.append(task)
        assert sorted(done) == list(range(5))

        # One of two nodes is killed: the other does all. Then that one is killed.
        for is_last in (False, True):
            loss = pytest.raises(WorkersLostError, match="lost its last node")
            reported = pytest.warns(RuntimeWarning, match="was lost: its task goes to another")
            tasks, done = range(60 if is_last else 12), []
            with loss if is_last else reported:
                for task, _ in run_tasks(Slow, tasks, executor="ray", processes=2):
                    done.append(task)
                    if len(done) == 4:
                        cluster.remove_node(nodes.pop(), allow_graceful=False)
            assert len(set(done)) == len(done)
            assert 4 <= len(done) < 60 if is_last else len(done) == 12
    finally:
        ray.shutdown()
        cluster.shutdown()


def test_without_ray_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    recipe = Recipe(env=TOY, episodes=1, reference_episodes=0)
    with pytest.raises(MissingExtraError, match=r"'\.\[ray\]'"):
        collect(recipe, tmp_path / "dataset", executor="ray")


class DoublingInJobs(Doubling):
    """Doubles; a file that is not there yet ends the process, and is there afterwards."""

    def __call__(self, task: object) -> object:
        if isinstance(task, Path):
            if not task.exists():
                task.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return task.name
        return super().__call__(task)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own, which jobs import from, too."""
    pytest.importorskip("submitit", reason="the extra slurm is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", IMPORTED)
    monkeypatch.setattr(worker_jobs, "LOOK", 0.3)
    return tmp_path


def in_jobs(tasks, address="local", processes=2):
    return run_tasks(DoublingInJobs, tasks, executor="slurm", address=address, processes=processes)


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
    assert "--array=0-1%2" in options and "--job-name=pmoss" in options


def test_what_is_wrong_is_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(MissingExtraError, match=r"'\.\[slurm\]'"):
        list(in_jobs([1]))
    monkeypatch.undo()
    pytest.importorskip("submitit", reason="the extra slurm is not installed")
    with pytest.raises(DescriptionError, match="address 'cloud': of jobs it is slurm or local"):
        list(in_jobs([1], address="cloud"))
