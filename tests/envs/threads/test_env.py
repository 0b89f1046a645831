"""Thread scheduling on the simulated server, and the load that it is tried with."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmoss_env.envs.threads import INPUT_NAMES, PROGRAMS, Sample, ThreadSchedulingEnv
from pmoss_env.envs.threads.decisions import unbalance, unbalanced_cores
from pmoss_env.envs.threads.inputs import LOCAL_SLOW, REMOTE_SLOW
from pmoss_env.envs.threads.key_value_load import run_load
from pmoss_env.envs.threads.reward import terms, weighted
from pmoss_env.errors import (
    BackendError,
    DescriptionError,
    IllegalActionError,
    UnknownNameError,
    UnsupportedError,
)
from tests.envs.episodes import SMALL, THREADS

SHADES = str.maketrans("░▒▓█|#", "      ")


def make(**options):
    return ThreadSchedulingEnv(**{**SMALL[THREADS], **options})


def test_masks_agree_and_count_the_threads_of_the_core():
    env = make(threads=150)
    assert env.action_masks().tolist() == [True] + [False] * 150
    observation, info = env.reset(seed=0)
    counts = set()
    ended = False
    while not ended:
        mask = info["action_mask"]
        assert (mask == observation["action_mask"]).all()
        on_core = int((env.sample.cpus == info["core"]).sum())
        if info["core"] >= 0:
            assert np.flatnonzero(mask).tolist() == list(range(on_core + 1))
            assert observation["threads"][0] == on_core
            counts.add(on_core)
        else:
            assert mask.sum() == mask[0] == 1
        observation, _, ended, _, info = env.step(min(1, on_core))
    assert max(counts) >= 2  # the set of actions has varied


def test_moving_all_brings_all_threads_to_their_data():
    env = make(requests=6_000_000)
    env.reset(seed=0)
    ended, left = False, []
    while not ended and len(left) < 80:
        _, _, ended, _, info = env.step(int(np.flatnonzero(env.action_masks())[-1]))
        left.append(info["unbalanced_cores"])
    nodes = env.machine.node_of_core[env.sample.cpus]
    assert left[-1] == 0
    assert (nodes == 0).all()  # data on node 2, whose socket is that of node 0


def test_illegal_actions():
    env = make(on_illegal="remap")
    env.reset(seed=0)
    _, _, _, _, info = env.step(48)
    assert info["illegal_actions"] == 1
    assert info["moved"] == 1  # as many as the core had
    env = make(on_illegal="terminate")
    env.reset(seed=0)
    moved = env.step(1)[4]["moved"]
    _, *ended, info = env.step(48)
    assert moved and ended == [0.0, True, False] and info["moved"] == 0
    env = make(on_illegal="raise")
    env.reset(seed=0)
    for action in (48, 49, -1, 0.5, "x"):
        with pytest.raises(IllegalActionError, match=str(action)):
            env.step(action)


@pytest.mark.parametrize(
    ("options", "error", "named"),
    [
        ({"program": "fillrandon"}, UnknownNameError, "fillrandom"),
        ({"machine": "skylake-x-8n"}, DescriptionError, "no node without cores"),
        ({"threads": 0}, DescriptionError, "threads = 0"),
        ({"threads": 10**9}, DescriptionError, "threads = 1000000000: must .* to 10,000"),
        ({"requests": 1.5}, DescriptionError, "requests = 1.5"),
        ({"data_nodes": [4]}, DescriptionError, "nodes 0 to 3"),
        ({"data_nodes": []}, DescriptionError, "at least one"),
        ({"data_nodes": 3}, DescriptionError, "data_nodes = 3"),
        ({"data_nodes": "23"}, DescriptionError, "data_nodes = '23'"),
        ({"data_nodes": [True]}, DescriptionError, "node = True"),
        ({"requests": 10**400}, DescriptionError, "requests = 1000"),
        ({"stay": "no"}, DescriptionError, "stay = 'no'"),
        ({"threshold": 0.0}, DescriptionError, "threshold = 0.0"),
        ({"reward": "sum"}, UnknownNameError, "normalised"),
        ({"utilisation": "disk"}, UnknownNameError, "bandwidth"),
        ({"epoch_seconds": 0}, DescriptionError, "epoch_seconds = 0"),
    ],
)
def test_bad_arguments_are_named(options, error, named):
    with pytest.raises(error, match=named):
        make(**options)


def test_rendering():
    env = make(render_mode="ansi")
    env.reset(seed=0)
    text = env.render()
    assert "48 threads" in text and "P_ub" in text
    rows = [line for line in text.splitlines()[1:-1] if any(c.isdigit() for c in line)]
    shown = [int(word) for row in rows for word in row.translate(SHADES).split()]
    assert len(shown) == env.machine.cores and sum(shown) == 48
    env = make(render_mode="rgb_array")
    env.reset(seed=0)
    assert env.render().ndim == 3


def sample_of(cpus, major, minor, inputs):
    cpus = np.asarray(cpus, dtype=np.int32)
    return Sample(
        seconds=1.0,
        threads=np.arange(cpus.size, dtype=np.int32),
        cpus=cpus,
        homes=np.full(cpus.size, 2, dtype=np.int32),
        major_faults=np.asarray(major, dtype=float),
        minor_faults=np.asarray(minor, dtype=float),
        core_load=np.bincount(cpus, minlength=inputs.shape[0]).astype(float),
        inputs=inputs,
        slow_read_gb_per_s=2.0,
        slow_write_gb_per_s=1.0,
        local_slow_accesses=float(inputs[:, LOCAL_SLOW].sum()),
        remote_slow_accesses=float(inputs[:, REMOTE_SLOW].sum()),
        utilisation=0.5,
    )


@settings(max_examples=60)
@given(
    rates=st.lists(
        st.tuples(st.floats(0, 1e9), st.floats(0, 1e9), st.booleans()), min_size=2, max_size=8
    ),
    threshold=st.floats(0.01, 1.0),
)
def test_unbalanced_cores_are_those_of_equation_4(rates, threshold):
    inputs = np.zeros((len(rates), len(INPUT_NAMES)))
    inputs[:, REMOTE_SLOW] = [rate[0] for rate in rates]
    inputs[:, LOCAL_SLOW] = [rate[1] for rate in rates]
    cpus = [i for i, rate in enumerate(rates) if rate[2]] or [0]
    sample = sample_of(cpus, [0] * len(cpus), [0] * len(cpus), inputs)
    got = set(unbalanced_cores(sample, threshold).tolist())
    for core, (remote, local, _) in enumerate(rates):
        share = remote / (remote + local) if remote + local > 0 else 0.0
        assert unbalance(inputs)[core] == pytest.approx(share)
        assert (core in got) == (core in cpus and unbalance(inputs)[core] >= threshold)


def test_reward_is_equation_3():
    inputs = np.zeros((2, len(INPUT_NAMES)))
    inputs[0, LOCAL_SLOW], inputs[1, REMOTE_SLOW] = 30.0, 10.0
    before = sample_of([0, 1], [0, 0], [0, 0], inputs)
    changed = inputs.copy()
    changed[0, LOCAL_SLOW] = 50.0
    after = sample_of([0, 0], [0, 0], [0, 0], changed)
    lna, bwvn, util = terms(before, after)
    assert (lna, bwvn, util) == (2 * 20.0 / 40.0, 0.0, 0.0)
    assert weighted((lna, bwvn, util)) == pytest.approx(0.45)
    assert terms(before, after, form="raw") == (20.0, 1e3 * (2.0 + 3 * 1.0), 0.0)


def test_programs_are_the_papers():
    assert sorted(PROGRAMS) == sorted(
        ["readrandom", "readseq", "fillrandom", "fillseq", "mixed50", "mixed70", "mixed90"]
    )
    for program in PROGRAMS.values():
        assert (program.threads, program.value_bytes, program.keys) == (48, 400_000, 20_000)


def test_the_load_does_what_it_says():
    for pattern in ("readrandom", "readseq", "fillrandom", "fillseq", "mixed50"):
        result = run_load(pattern, threads=2, keys=50, value_bytes=5000, requests=300)
        assert result.requests == 300 and result.gb_per_s > 0.0
        assert result.p99_ms > 0.0
    assert run_load("readseq", threads=1, keys=5, value_bytes=1000, seconds=0.2).seconds >= 0.2
    with pytest.raises(UnknownNameError):
        run_load("readall")
    with pytest.raises(DescriptionError, match="threads = 0"):
        run_load("readseq", threads=0)
    with pytest.raises(BackendError, match="node 500"):
        run_load("readseq", node=500)


def test_an_environment_over_a_running_server_has_no_copy():
    env = make()
    env.reset(seed=0)
    over = ThreadSchedulingEnv.on(env.unwrapped.server, most_threads=4)
    with pytest.raises(UnsupportedError, match="was not made by its arguments"):
        copy.deepcopy(over)
