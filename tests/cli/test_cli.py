"""The commands, run as a user runs them."""

import errno
import json
import os
import re
import signal
import subprocess
import time
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from pmoss_datasets.evaluation import read_results
from pmoss_env import host_report, measuring
from pmoss_env.backends.kernel_settings import switched
from pmoss_env.cli.signals import resume_hint
from pmoss_env.measuring import AUTO_NUMA, BALANCED, BALANCING
from tests.cli.invoking import PARENT, PMOSS, pmoss, pmoss_json, running
from tests.sources import REPOSITORY

SHIPPED = REPOSITORY / "agents/pmoss_agents/shipped/surrogate-busy-core-v0.safetensors"


def test_catalogues_list_what_there_is() -> None:
    machines = pmoss("list", "machines")
    for name in ("skylake-x-8n", "milan-nps4", "toy", "host"):
        assert name in machines
    assert "engineering estimate" in " ".join(pmoss("list", "machines", "milan-nps4").split())
    shown = pmoss("list", "machines", "xeon-6240m-optane")
    assert "80.8 140.4 305 366" in shown and "87.42, 87.42, 26.4, 26.4" in shown
    listed = json.loads(pmoss("list", "workloads", "--json"))
    mixes = {row["name"]: row["operations"] for row in listed}
    assert mixes["ycsb-core-f"] == "50% lookup, 50% read-modify-write"
    assert mixes["ycsb-a"] == "50% lookup, 50% insert"
    assert "0 are empty" in pmoss("list", "workloads", "osm-a", "--slices", "64")
    assert "pmoss/toy-v0" in pmoss("list", "environments")


def test_in_a_pipe_no_name_is_broken() -> None:
    done = subprocess.run(
        [str(PMOSS), "list", "environments"],
        capture_output=True,
        text=True,
        env={name: value for name, value in os.environ.items() if name != "COLUMNS"},
        check=True,
    )
    assert "pmoss/skylake-x-8n-btree-ycsb-a-v0" in done.stdout


def test_doctor_judges_every_event() -> None:
    report = pmoss("doctor")
    for event in ("cycles", "instructions", "dtlb_misses", "task_clock"):
        assert event in report
    assert re.search(r"\d+ of \d+ events can be counted here", report)


@pytest.mark.parametrize(
    ("limit", "value", "words"),
    [
        ("none", "no limit", "have all of it"),
        ("2.5", "that of 2.5 CPUs", "stops threads on 4 CPUs again and again"),
        ("8", "that of 8 CPUs", "above what there is"),
    ],
)
def test_a_limit_of_cpu_time_is_judged(limit: str, value: str, words: str) -> None:
    said = host_report._cpu_time(limit, 4)
    assert said[0] == value and words in said[1]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("measure groupd", "unknown baseline 'groupd'"),
        ("measure --workload ycsb", "unknown workload 'ycsb'. Did you mean 'ycsb-a'?"),
        ("measure --backend hardwar", "unknown backend 'hardwar'"),
        ("evaluate -e foo=1", "environment argument 'foo': unknown; known are"),
        ("evaluate -e slices=" + "[" * 100_000, "environment argument slices"),
        ("train {tmp}/none {tmp}/a.safetensors", "none: is neither an agent nor a dataset"),
        ("train surrogat {tmp} {tmp}/a.safetensors", "nor a dataset; did you mean 'surrogate'?"),
        ("train cql {tmp}", "OUT is missing: name a file ending in .safetensors"),
        ("train {tmp}", "OUT is missing: name a file ending in .safetensors"),
        ("train cql", "OUT is missing: name a file ending in .safetensors"),
        ("evaluate best_fit", "unknown policy 'best_fit'. Did you mean 'best-fit'?"),
        ("train {tmp}/d {tmp}/a.safetensors -e machine=toy", "DATASET OUT, or OUT alone"),
        ("evaluate {tmp}/none.safetensors", "none.safetensors"),
        ("study replay {tmp}/none.jsonl", "none.jsonl: cannot be read"),
        ("measure --records 0", "records"),
        ("measure --rate -1", "--rate -1: must be a positive number"),
        ("measure -o window=99999999999", "window = 99999999999: must be a whole number from 0 to"),
        ("run load readrandom --keys -1", "keys = -1: must be a whole number from 1"),
        ("run load readrandom --requests 0", "requests = 0: must be a whole number from 1"),
        (
            'run autopilot -e backend_options={{"records":9}}',
            "records: give --records",
        ),
        ("data collect {tmp}/x some.safetensors", "a checkpoint collects as pmoss_agents:load"),
        ("measure --index trie", "unknown index 'trie'. Did you mean 'rtree'?"),
        ('study run headroom --set indexes=["trie"]', "unknown index 'trie'"),
        ("evaluate lpt lpt", "more than one policy is named 'lpt': "),
        ("train d {tmp}/a --resume --set updates=9", "--resume with --set: "),
        ("train bc d {tmp}/a --resume --config c", "--resume with --config, agent bc: "),
        ("train d {tmp}/a --start b --resume", "--start with --resume: "),
        ("train d {tmp}/a.safetensors --start pmoss/none", "unknown pretrained agent"),
        ("demo --quick --out /dev/null/demo", "error: /dev/null/demo: Not a directory"),
        # What cannot be written is refused before the work.
        ("evaluate --out {tmp}", "error: {tmp}: Is a directory\n"),
        ("evaluate --out /dev/null/r.jsonl", "error: /dev/null/r.jsonl: Not a directory\n"),
        ("evaluate --out /proc/r.jsonl", "error: /proc/r.jsonl: No such file or directory"),
        ("train {tmp}/none /dev/null/a.safetensors", "/a.safetensors: Not a directory\n"),
        ("data collect /dev/null/data", "error: /dev/null/data: Not a directory\n"),
        ("data collect /dev/null --overwrite", "error: /dev/null: Not a directory\n"),
        ("measure --machine milan-nps4", "--backend analytic"),
        ("train {tmp}/d {tmp}/a.py", "a.py: its name must end in .safetensors"),
        ("explain grouped lpt --svg {tmp}/a.png", "{tmp}/a.png: its name must end in .svg"),
        ("measure lpt --rate 1 --picture {tmp}/a.png", "a.png: its name must end in .svg"),
        (f"run threads {SHIPPED} --dry-run -- sleep 9", "plays spatial, not threads; see pmoss"),
        ("run rollout -e slices=8 --machine toy --episodes 0", "episodes = 0: "),
    ],
)
def test_bad_input_ends_with_one_line_and_status_2(words, complaint, tmp_path):
    output = pmoss(*words.format(tmp=tmp_path).split(), status=2)
    assert "error: " in output
    assert complaint.format(tmp=tmp_path) in output
    assert list(tmp_path.iterdir()) == []


def test_evaluations_of_a_search_are_shown_beside_its_score() -> None:
    words = ["evaluate", "lpt", "-e", "machine=toy", "-e", "slices=8"]
    counts = ["--seeds", "1", "--episodes", "1", "--budget", "30", "--schedules", "2"]
    assert "evaluations" not in pmoss_json(*words, *counts)[0]
    shown = pmoss_json(*words, "local-search", *counts)
    evaluations = {row["policy"]: row["evaluations"] for row in shown}
    assert evaluations["lpt"] is None and 0 < evaluations["local-search"] <= 30
    assert "evaluations" in pmoss(*words, "local-search", *counts)


def test_measuring_in_rounds_goes_on_where_it_was(tmp_path: Path) -> None:
    out = tmp_path / "toy.jsonl"
    words = ["measure", "--backend", "analytic", "--machine", "toy", "--slices", "8"]
    words += ["lpt", "--out", str(out), "--rounds"]
    assert "round 1  lpt" in pmoss(*words, "2")
    kept = out.read_text()
    assert len(kept.splitlines()) == 3
    assert "round 2  lpt" in pmoss(*words, "3")
    assert out.read_text().startswith(kept) and len(out.read_text().splitlines()) == 4
    assert "results of another command" in pmoss(*words, "3", "--seed", "1", status=2)


@pytest.mark.parametrize("index", ["btree", "rtree"])
def test_collecting_on_this_host(index: str, tmp_path: Path) -> None:
    workload = {"btree": "ycsb-a", "rtree": "rtree-ranges-5m"}[index]
    options = {"records": 5000, "seconds": 0.4, "warmup_seconds": 0.05}
    words = ["data", "collect", str(tmp_path / "host"), "--backend", "hardware", "--tier", "random"]
    words += ["--episodes", "2", "-e", "slices=16", "-e", "workload_seed=1"]
    words += ["-e", f"index={index}", "-e", f"workload={workload}"]
    shown = pmoss(*words, "-e", f"backend_options={json.dumps(options)}")
    assert "2 episodes" in shown and "host" in shown


def test_two_schedules_are_explained(tmp_path: Path) -> None:
    page = tmp_path / "why.html"
    task = ["-e", "interference=busy_core", "-e", "slices=64"]
    text = pmoss("explain", "os-default", "lpt", *task, "--html", str(page))
    assert "times the queries of os-default" in text
    for kind in ("Nodes", "Channels", "Links", "Cores"):
        assert f"{kind}, biggest difference first" in text
    assert "<svg" in page.read_text()
    schedule = tmp_path / "mine.json"
    schedule.write_text(json.dumps({"cores": [3] * 64}))
    assert "of the queries of lpt" in pmoss("explain", "lpt", str(schedule), *task)
    assert "queries than incumbent" in pmoss("explain", "best-fit", *task)
    linux = pmoss("explain", BALANCED, AUTO_NUMA, "--machine", "milan-nps4")
    assert f"{AUTO_NUMA} serves 12% more queries than {BALANCED}" in linux
    assert "two can be compared" in pmoss("explain", "lpt", "random", "best-fit", status=2)
    results = tmp_path / "r.jsonl"
    toy = ["-e", "machine=toy", "-e", "slices=8"]
    small = ["--seeds", "1", "--episodes", "2", "--budget", "20", "--schedules", "2"]
    pmoss("evaluate", "lpt", "random", *toy, *small, "--seed", "7001", "--out", str(results))
    assert {row.seed for row in read_results(results)[1]} == {7001}
    assert "unknown baseline 'ltp'. Did you mean 'lpt'" in pmoss("explain", "ltp", "x", status=2)
    assert "does not exist" in pmoss("explain", "lpt", "absent.safetensors", status=2)


def test_a_rollout_measures_what_policies_do(tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    words = ["run", "rollout", "lpt", "spread", "--machine", "toy", "--backend", "analytic"]
    words += ["-e", "slices=8", "--episodes", "2", "--out", str(out)]
    shown = pmoss(*words)
    assert "episode 1  spread" in shown
    assert len(out.read_text().splitlines()) == 5
    before = out.read_text()
    pmoss(*words)
    assert out.read_text() == before
    keep = tmp_path / "schedules"
    words = [*words[:-2], "--undo", "always", "--keep", str(keep)]
    shown = pmoss(*words)
    assert shown.count("again, verified") == 4 and "2 of 2" in shown
    assert len(list(keep.iterdir())) == 8
    taken_up = pmoss(*words, "--incumbent", str(keep / "lpt-1-after.json"), "--episodes", "1")
    assert "lpt-0-before.json" in {path.name for path in keep.iterdir()}
    assert "episode 0  spread" in taken_up


def test_a_rollout_does_not_go_on_where_the_code_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "class Mine:\n    reset = act = lambda self, *_: 0\n"
    (module := tmp_path / "written_by_a_user.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    toy, out = ["-e", "machine=toy", "-e", "slices=8"], ["--out", tmp_path / "rows.jsonl"]
    words = ["run", "rollout", "written_by_a_user:Mine", "--backend", "analytic", *toy, *out]
    assert pmoss(*words) == pmoss(*words)
    module.write_text(code + "# another\n")
    assert "written_by_a_user.py was [" in pmoss(*words, status=2)


def test_measure_on_the_model_and_on_this_host() -> None:
    model = pmoss("measure", "--backend", "analytic", "--machine", "toy", "--slices", "8")
    assert "grouped" in model and "Mq/s" in model
    linux = ("measure", "os-default", "lpt", "--machine", "toy", "--slices", "8", "--backend")
    for backend in ("analytic", "simulated"):
        lines = pmoss(*linux, backend).splitlines()[:12]
        rows = [re.split(" {2,}", line.strip())[0] for line in lines]
        shown = [row for row in rows if row.startswith(("os-", "lpt"))]
        assert shown == ["os-default", "os-default, AutoNUMA on", "lpt"]
    alone = pmoss(*linux, "analytic", "-o", "numa_balancing=true")
    assert "os-default" in alone and "AutoNUMA" not in alone
    named = ("measure", BALANCED, AUTO_NUMA, f"{BALANCED}, AutoNUMA off", "--machine", "milan-nps4")
    shown = [
        line for line in pmoss(*named, "--backend", "analytic").splitlines() if "  os-" in line
    ]
    served = [re.split(" {2,}", line.strip())[1] for line in shown]
    assert served[0] == served[2] < served[1]
    over = pmoss(*named, "--backend", "analytic", "--rate", "80").splitlines()
    assert [line.split()[-3] for line in over if line.strip().startswith("80 ")] == served
    two = pmoss(*named, "--backend", "analytic", "-o", "numa_balancing=true", status=2)
    assert "leave the option out, or name os-default alone" in two
    points = pmoss(
        *("measure", "--backend", "analytic", "--machine", "toy", "--index", "rtree"),
        *("--records", "50000", "--slices", "16"),
    )
    assert "rtree-ranges-5m" in points
    output = pmoss("measure", "--records", "20000", "--seconds", "0.2", "--slices", "16")
    # The first schedule once more, and all on the same records.
    assert "grouped, again" in output and "ratio [95 %]" in output and " .. " not in output
    assert output.count(" 20,000 ") == 3 and "task_clock_us" in output


def test_measure_does_not_go_on_with_another_index(faulty, tmp_path) -> None:
    words = ["measure", "grouped", "--records", "5000", "--seconds", "0.05", "--slices", "8"]
    words += ["--workload", "lookups", "--out", str(tmp_path / "host.jsonl")]
    pmoss(*words)
    assert 'index was "btree" and is "plugin:' in pmoss(
        *words, "--index", f"plugin:{faulty('good')}", status=2
    )


@pytest.mark.parametrize("name", list(BALANCING))
def test_measure_names_a_setting_that_this_host_does_not_have(name, monkeypatch) -> None:
    monkeypatch.setattr(measuring, "why_no_balancing", lambda nodes: "this host has one NUMA node")
    refused = pmoss("measure", "lpt", name, "--records", "20000", "--slices", "16", status=2)
    assert f"{name!r}: this host has one NUMA node: name os-default alone" in refused


@pytest.mark.parametrize("backend", ["analytic", "hardware"])
def test_points_of_a_file_are_measured(tmp_path: Path, backend: str) -> None:
    np.save(tmp_path / "cities.npy", np.random.default_rng(0).normal(size=(20_000, 2)))
    words = ("--workload", f"points:{tmp_path / 'cities.npy'}", "--slices", "16")
    on = () if backend == "hardware" else ("--machine", "toy")
    output = pmoss(
        "measure", "grouped", "lpt", "--backend", backend, *on, "--seconds", "0.2", *words
    )
    assert "points-cities.npy" in output
    # All are loaded, although the usual number on this host is larger.
    assert output.count(" 20,000 ") == (3 if backend == "hardware" else 0)
    assert " 20000 " in pmoss("list", "workloads", words[1])
    few = pmoss("measure", "--backend", backend, *on, *words, "--records", "20001", status=2)
    assert "at most the 20000 points" in " ".join(few.split())
    (tmp_path / "cities.npy").write_bytes(b"")
    assert "no .npy file" in " ".join(pmoss("measure", *words, status=2).split())


def test_response_times_are_shown_and_drawn_over_offered_rates(tmp_path: Path) -> None:
    picture = tmp_path / "curve.svg"
    task = ("measure", "lpt", "--backend", "analytic", "--machine", "toy", "--slices", "8")
    rates = ("--rate", "4", "--rate", "1", "--rate", "500")
    text = pmoss(*task, *rates, "--picture", str(picture))
    assert [line.split()[0] for line in text.splitlines() if " lpt " in line] == ["1", "4", "500"]
    assert "lpt: overload: 500 Mq/s were offered" in " ".join(text.split())
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")
    text = pmoss(*("simulated" if word == "analytic" else word for word in task), "--rate", "500")
    assert "lpt: overload: 500 Mq/s were offered" in " ".join(text.split())
    for wrong in (("--picture", str(picture)), (*rates, "--out", str(tmp_path / "rows.jsonl"))):
        assert "--rate" in pmoss(*task, *wrong, status=2)


def test_collect_train_evaluate_validate(tmp_path: Path) -> None:
    data, agent, results = (
        str(tmp_path / name) for name in ("data", "agent.safetensors", "r.jsonl")
    )
    task = ["-e", "machine=toy", "-e", "slices=8", "-e", "order=load"]
    assert "12 episodes" in pmoss("data", "collect", data, *task, "--episodes", "12")
    small = [
        word
        for pair in ("updates=6", "layers=1", "heads=2", "width=32", "batch_size=2")
        for word in ("--set", pair)
    ]
    assert "saved to" in pmoss("train", data, agent, *small)
    resumed = pmoss("train", data, agent, "--resume", "--set", "device=auto")
    assert "decision-transformer: " in resumed
    out = pmoss(
        *("evaluate", agent, *task, "--seeds", "2", "--episodes", "1", "--budget", "50"),
        *("random", "lpt", "--out", results),
    )
    assert "agent" in out
    assert "all bits equal" in pmoss("study", "replay", results)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "agent.safetensors",
        "data",
        "r.jsonl",
    ]
    output = pmoss("train", data, agent, *small, status=2)
    assert "--overwrite replaces it, --resume goes on with it" in output
    assert "--overwrite replaces it" in pmoss("evaluate", agent, *task, "--out", results, status=2)
    lines = (tmp_path / "r.jsonl").read_text().splitlines()
    row = json.loads(lines[1])
    row["throughput"] *= 1.001
    (tmp_path / "r.jsonl").write_text("\n".join([lines[0], json.dumps(row), *lines[2:]]) + "\n")
    assert "1 mismatches" in pmoss("study", "replay", results, status=1)
    (tmp_path / "r.jsonl").write_text("\n".join(lines[:-1]) + "\n")
    assert "rows = 6, but 5 follow" in pmoss("study", "replay", results, status=2)


SMALL = ("layers=1", "heads=2", "width=32", "batch_size=2", "updates=4", "save_every=2")


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left")])
def test_a_training_without_a_checkpoint_can_begin_again(tmp_path, monkeypatch, stop):
    """As with a full disk at the first checkpoint, or Ctrl-C before it within an update."""
    from pmoss_agents.spatial.decision_transformer import DecisionTransformer

    out, log = tmp_path / "a.safetensors", tmp_path / "log.jsonl"
    few = ("-e", "machine=toy", "-e", "slices=8", "--episodes", "4")
    pmoss("data", "collect", str(tmp_path / "data"), *few)
    words = ["train", str(tmp_path / "data"), str(out), "--log", str(log)]
    words += [word for change in SMALL for word in ("--set", change)]

    def fails(agent: object, path: object) -> None:
        assert log.exists()
        raise stop

    with monkeypatch.context() as broken:
        broken.setattr(DecisionTransformer, "save", fails)
        pmoss(*words, status=130 if isinstance(stop, KeyboardInterrupt) else 2)
    assert resume_hint() == "no checkpoint was written yet: give the same command again"
    assert not out.exists() and not log.exists()
    assert "saved to" in pmoss(*words)
    # A log that a kill left, with no checkpoint, says what to do.
    before = log.read_text()
    out.unlink()
    assert "log.jsonl: exists already; --overwrite replaces it" in pmoss(*words, status=2)
    assert log.read_text() == before
    assert "saved to" in pmoss(*words, "--overwrite")
    assert len(log.read_text().splitlines()) == 4
    # Behind a checkpoint, the command that goes on is named.
    save = DecisionTransformer.save

    def saves(agent, path):
        save(agent, path)
        raise stop

    with monkeypatch.context() as broken:
        broken.setattr(DecisionTransformer, "save", saves)
        pmoss(*words, "--overwrite", status=130 if isinstance(stop, KeyboardInterrupt) else 2)
    assert f"{out} goes on by the same command with --resume, without agent" in resume_hint()
    assert "saved to" in pmoss(*words[:5], "--resume")
    assert len(log.read_text().splitlines()) == 4


def test_a_log_of_something_else_is_not_replaced(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("notes\n")
    few = ("-e", "machine=toy", "-e", "slices=8", "--episodes", "4")
    pmoss("data", "collect", str(tmp_path / "data"), *few)
    words = ["train", str(tmp_path / "data"), str(tmp_path / "a.safetensors"), "--log", str(log)]
    assert "is no line of a training's log" in pmoss(*words, "--overwrite", status=2)
    assert log.read_text() == "notes\n"


@pytest.mark.parametrize(
    "content", [b"[]", b"{}", b"3", b"", b"{", b"\xff", b"[" * 100_000, b'{"format": []}']
)
def test_a_report_that_is_none_is_refused_in_a_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(content)
    output = pmoss("study", "replay", str(path), status=2)
    assert "error: " in output and str(path) in output


def test_quick_demo_writes_everything(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from pmoss_agents.demo import AGENT, QUICK, RULES, TUNED
    from pmoss_agents.demo.host import nothing_to_gain

    output = pmoss("demo", "--quick", "--html", "--out", str(tmp_path / "demo"))
    linux = ("Linux default", "Linux, AutoNUMA on")
    shown = (*linux, "best rule: ", "agent, at once", "agent, after 12 episodes", "search")
    for name in (*shown, "Pictures:", nothing_to_gain() or "Lost queries: 0", QUICK.agent):
        assert name in output
    written = {path.name for path in (tmp_path / "demo").iterdir()}
    pictures = {"demo.svg", "chip.svg"}
    assert written == {"demo.html", *pictures, "results.jsonl", "summary.json", "tuning"}
    for name in pictures:
        assert ElementTree.parse(tmp_path / "demo" / name).getroot().tag.endswith("svg")
    summary = json.loads((tmp_path / "demo" / "summary.json").read_text())
    measured = {p["policy"] for p in summary["policies"]}
    balanced = "os-default, AutoNUMA on"
    assert measured == {"os-default", balanced, AGENT, TUNED, "local-search", *RULES}
    assert len(summary["shown"]) == 5
    assert all(policy["illegal_actions"] == 0 for policy in summary["policies"])
    page = (tmp_path / "demo" / "demo.html").read_text()
    assert "<script" not in page and "http" not in page.replace('xmlns="http', "")
    for policy in measured:
        assert f">{policy}<" in page
    assert "all bits equal" in pmoss("study", "replay", str(tmp_path / "demo" / "results.jsonl"))


def test_the_demo_reschedules_an_index_without_losing_a_query(kernel, monkeypatch):
    from pmoss_agents.demo import host as watching

    monkeypatch.setattr(watching, "switched", partial(switched, root=kernel))
    monkeypatch.setattr(watching, "why_no_balancing", lambda nodes: "")
    lines: list[str] = []
    size = (50_000, 3, 0.1)
    host = watching.watch_host(*size, seed=0, progress=lambda *stage: None, on_round=lines.append)
    assert host.lost == 0
    assert [len(rates) for rates in host.throughputs.values()] == [3] * 4
    assert list(host.throughputs) == ["os-default", *BALANCING, "lpt"]
    assert len(lines) == 12


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (signal.SIGINT, "measure --records 200000 --seconds 60"),
        (signal.SIGHUP, "measure --records 200000 --seconds 60"),
        (signal.SIGTERM, "data collect {tmp}/data --episodes 100000 --processes 2"),
    ],
)
def test_a_signal_leaves_no_children_and_nothing_cut(number, words, tmp_path):
    process = subprocess.Popen(
        [str(PMOSS), *words.format(tmp=tmp_path).split()],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    rows = tmp_path / "data.partial"
    while process.poll() is None and not (
        rows.exists() and rows.stat().st_size > 1000
        if words.startswith("data")
        else running(PARENT, process.pid)
    ):
        time.sleep(0.05)
    children = running(PARENT, process.pid)
    assert children
    os.killpg(process.pid, number)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 128 + number, output.decode()
    assert b"interrupted: a command that keeps finished work" in output
    assert b"Traceback" not in output
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and any(Path(f"/proc/{c}").exists() for c in children):
        time.sleep(0.1)
    assert not any(Path(f"/proc/{child}").exists() for child in children)
    # A collection keeps the episodes that are finished, to go on from there.
    assert {path.name for path in tmp_path.iterdir()} <= {"data.partial"}
