"""Environments beside CartPole, memcpy and SyncVectorEnv, and the paper's Decision Transformer."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter, process_time, sleep, thread_time
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

import pmoss_env  # noqa: F401  # registers the environments
from pmoss_agents import OfflineAgent, make
from pmoss_benchmarks.performance.programs import Figure, cost, figure, ratios, timed
from pmoss_datasets import Behaviour, Recipe, collect
from pmoss_env.backends import make_backend
from pmoss_env.backends.analytic import AnalyticBackend
from pmoss_env.machines import Machine
from pmoss_env.types import CoTenant, Instance

Work = Callable[[], None]
SPATIAL, CONTINUAL, CARTPOLE = (
    "pmoss/SpatialScheduling-v0",
    "pmoss/ContinualScheduling-v1",
    "CartPole-v1",
)
SLICES = 256
#: Calls of the model in a round, but for moves.
CALLS = 64
#: Of the vector environment: enough that the cost of a step in Python is shared by many. The cost
#: of SyncVectorEnv does not fall with their number.
ENVIRONMENTS, FEW = 128, 8
#: Of whole episodes: as many as a learner has.
EPISODES = 16
#: Of the native threads; and how long a learner thinks before a reset, in seconds.
THREADS, THINKING = (1, 2), 0.2
#: Of the continual environment, as it has them by default.
EPOCHS, MOVES, CONTINUAL_ENVIRONMENTS = 100, 8, 16
CARTPOLE_STEPS = 1000
#: Linux's count of a process's pages.
STATM = Path("/proc/self/statm")
#: Trajectories of an update.
BATCH = 4


def environment(rounds: int, **_: Any) -> list[Figure]:
    """A step at 256 slices and 56 workers beside one of CartPole, and what the model is asked."""
    env = gymnasium.make(SPATIAL, reward="improvement")
    _, info = env.reset(seed=0)
    actions = legal_tiles(info["action_mask"][None], SLICES)[:, 0].tolist()

    def step() -> None:
        env.reset(seed=0)
        for action in actions:
            env.step(action)

    backend, works = model_works("skylake-x-8n", SLICES)
    nodes = backend.machine.nodes
    tenants = [Instance(0, (CoTenant("memory_stream", node, 0.5),)) for node in range(nodes)]
    place = works["a whole schedule"][0]
    schedule = backend.machine.local_schedule(np.resize(backend.machine.workers, SLICES))

    def set_instances(instances: list[Instance]) -> Work:
        def work() -> None:
            for at in range(CALLS):
                backend.set_instance(instances[at % len(instances)])
            backend.place(schedule)

        return work

    def snapshots() -> None:
        # Each after a schedule, so that no sum of the last one is known.
        place(backend.model.snapshot)

    works["other co-tenants of an instance"] = set_instances(tenants), CALLS
    works["a new instance"] = set_instances([Instance(seed + 1) for seed in range(CALLS)]), CALLS
    seconds = timed(
        {
            "step": step,
            CARTPOLE: _cartpole(SLICES),
            **{name: work for name, (work, _) in works.items()},
            "snapshots": snapshots,
        },
        rounds,
    )
    own, peer = seconds["step"], seconds[CARTPOLE]
    placed = seconds["a whole schedule"]
    alone = [both - one for both, one in zip(seconds["snapshots"], placed, strict=True)]
    return [
        cost("environment step, improvement reward", own, SLICES),
        figure("environment step / CartPole-v1 step", "x", ratios(own, peer), "CPU time"),
        *(
            cost(f"analytic model alone, {name}", seconds[name], calls)
            for name, (_, calls) in works.items()
        ),
        cost("analytic model alone, a snapshot", alone, CALLS),
        cost("CartPole-v1 step, for scale", peer, SLICES),
    ]


def model_works(
    machine: str | Machine, slices: int
) -> tuple[AnalyticBackend, dict[str, tuple[Callable[..., None], int]]]:
    """A backend, and a move and a whole schedule of its model: the work, and its calls."""
    backend = make_backend("analytic", machine=machine, workload="ycsb-a", slices=slices)
    assert isinstance(backend, AnalyticBackend)
    rng = np.random.default_rng(0)
    workers = backend.machine.workers
    # A slice that is where it should go would cost nothing: schedules end with the second one, and
    # moves lead from there to the first.
    schedules = [backend.machine.local_schedule(rng.choice(workers, slices)) for _ in range(2)]
    backend.place(schedules[1])
    moved = rng.permutation(slices)[:SLICES].tolist()

    def move() -> None:
        cores = schedules[0].cores.tolist()
        for s in moved:
            backend.move(s, cores[s])

    def place(then: Callable[[], object] = lambda: None) -> None:
        for at in range(CALLS):
            backend.model.place(schedules[at % 2].cores, schedules[at % 2].nodes)
            then()

    return backend, {"one move": (move, len(moved)), "a whole schedule": (place, CALLS)}


def vector_environment(rounds: int, **_: Any) -> list[Figure]:
    """One thread; observations are copied out at every step."""
    # The model is asked at the end of an episode only: what is left is the environment itself.
    quiet: dict[str, Any] = {"reward": "terminal", "measure_every": SLICES}
    envs = _vector(SPATIAL, ENVIRONMENTS, **quiet)
    observations, infos = envs.reset(seed=0)
    size = sum(values.nbytes for values in observations.values())
    actions = legal_tiles(infos["action_mask"], SLICES - 1)
    source = np.ones(size, dtype=np.uint8)
    target = np.zeros_like(source)

    def copy() -> None:
        for _ in actions:
            np.copyto(target, source)

    works = {"reset": lambda: envs.reset(seed=0), "step": _steps(envs, actions), "copy": copy}
    seconds = timed(works, rounds)
    note = (
        f"CPU time, {ENVIRONMENTS} environments, model asked once, steps within an episode; each "
        f"step writes all observations ({size:,} bytes) to arrays of their own"
    )
    shares = ratios(seconds["copy"], seconds["step"], 100.0)
    steps = [1e6 * s / actions.size for s in seconds["step"]]
    figures = [
        figure("vector environment, bytes of observation / memcpy", "%", shares, note),
        figure("vector environment, step of one of its environments", "us", steps, note),
    ]
    note = f"CPU time, whole episodes of {FEW} environments with their resets"
    modes = ("sync", "vector_entry_point")
    for words, arguments in {
        "model asked once": quiet,
        "improvement reward": {"reward": "improvement"},
    }.items():
        played = {mode: _episodes(_vector(SPATIAL, FEW, mode, **arguments)) for mode in modes}
        both = timed(played, rounds)
        over = ratios(both["sync"], both["vector_entry_point"])
        figures.append(figure(f"vector environment / SyncVectorEnv, {words}", "x", over, note))
    return figures


def whole_episodes(rounds: int, **_: Any) -> list[Figure]:
    """Steps of whole episodes with their resets, by reward and observation, beside CartPole."""
    quiet: dict[str, Any] = {"reward": "terminal", "measure_every": SLICES}
    settings: dict[str, dict[str, Any]] = {
        "improvement reward, full": {"reward": "improvement"},
        "improvement reward, compact": {"reward": "improvement", "observation": "compact"},
        "terminal reward, full": quiet,
        "terminal reward, compact": {**quiet, "observation": "compact"},
        "terminal reward, compact, not copied": {**quiet, "observation": "compact", "copy": False},
    }
    works: dict[str, Work] = {}
    sizes = {}
    for name, arguments in settings.items():
        envs = _vector(SPATIAL, EPISODES, **arguments)
        observations, _ = envs.reset(seed=0)
        sizes[name] = sum(values.nbytes for values in observations.values()) // EPISODES
        works[name] = _episodes(envs)
    peers = {"a single environment": 1, "SyncVectorEnv": EPISODES, "native vector": EPISODES}
    works["a single environment"] = _cartpole(SLICES + 1)
    for name, mode in (("SyncVectorEnv", "sync"), ("native vector", "vector_entry_point")):
        peer_envs = _vector(CARTPOLE, EPISODES, mode)
        peer_envs.reset(seed=0)
        pushes = np.random.default_rng(0).integers(2, size=(SLICES + 1, EPISODES))
        works[name] = _steps(peer_envs, pushes)
    if find_spec("envpool") is not None:  # an optional peer
        import envpool

        pool = envpool.make_gymnasium(CARTPOLE, num_envs=EPISODES, num_threads=1)
        pool.reset()
        works["EnvPool"], peers["EnvPool"] = _steps(pool, pushes.astype(np.int32)), EPISODES
    seconds = timed(works, rounds)
    single = [s / (SLICES + 1) for s in seconds["a single environment"]]
    figures = []
    for name, values in seconds.items():
        count = (SLICES + 1) * peers.get(name, EPISODES)
        what = f"{CARTPOLE}, {name}" if name in peers else f"whole episodes, {name}"
        note = f"per CPU second, {count // (SLICES + 1)} environments, one thread, with resets"
        if name in sizes:
            note += f", {sizes[name]:,} bytes an observation"
            steps = [s / count for s in values]
            over = figure(f"{what}, step / {CARTPOLE} step", "x", ratios(steps, single), note)
            figures.append(over)
        figures.append(figure(what, "1/s", [count / s for s in values], note))
    figures += _waits(rounds, quiet)
    if not STATM.exists():
        return figures
    note = f"resident memory that {ENVIRONMENTS} environments add, after a whole episode"
    with get_context("spawn").Pool(1, maxtasksperchild=1) as fresh:
        for name, arguments in settings.items():
            size = fresh.apply(_megabytes, (arguments,))
            figures.append(figure(f"memory of an environment, {name}", "MB", [size], note))
    return figures


def _waits(rounds: int, quiet: Mapping[str, Any]) -> list[Figure]:
    """What the caller's own thread does, while others may measure the next incumbents."""
    works: dict[str, tuple[Work, int, str]] = {}
    for threads in THREADS:
        on = f"{threads} native thread{'s' * (threads > 1)}"
        envs = _vector(SPATIAL, EPISODES, threads=threads, **quiet)
        works[f"whole episodes, terminal reward, {on}, a step"] = _episodes(envs), SLICES + 1, ""
        more = _vector(SPATIAL, EPISODES, threads=threads)
        more.reset(seed=0)

        def reset(envs: Any = more) -> None:
            sleep(THINKING)
            envs.reset()

        works[f"reset, {on}"] = reset, 1, f", {THINKING} s after the last one"
    seconds = timed({name: work for name, (work, *_) in works.items()}, rounds, thread_time)
    figures = []
    for name, (_, calls, when) in works.items():
        note = f"CPU time of the caller's thread, {EPISODES} environments{when}"
        values = [1e6 * s / calls / EPISODES for s in seconds[name]]
        figures.append(figure(f"{name}, the caller", "us", values, note))
    return figures


def _megabytes(arguments: dict[str, Any]) -> float:
    """What one of many environments takes, in MB; what all share does not count."""

    def resident() -> int:
        return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    _vector(SPATIAL, 1, **arguments).reset(seed=0)
    before = resident()
    work = _episodes(_vector(SPATIAL, ENVIRONMENTS, **arguments))
    work()
    return (resident() - before) / ENVIRONMENTS / 1e6


def continual(rounds: int, **_: Any) -> list[Figure]:
    """Epochs with 8 moves each at 256 slices and 56 workers, on one thread."""
    note = f"per CPU second, episodes of {EPOCHS} epochs with {MOVES} moves each and their resets"
    options: dict[str, Any] = {"slices": SLICES, "moves_per_epoch": MOVES, "epochs": EPOCHS}
    works, counts = {}, {}
    for noise, words in ((0.0, "no noise"), (1.0, "noise as on hardware")):
        single = gymnasium.make(CONTINUAL, noise=noise, **options)
        envs = _vector(CONTINUAL, CONTINUAL_ENVIRONMENTS, noise=noise, copy=False, **options)
        name, vector = f"continual environment, {words}", f"continual vector environment, {words}"
        works[name], counts[name] = _moves(single, 1), EPOCHS
        works[vector] = _moves(envs, CONTINUAL_ENVIRONMENTS)
        counts[vector] = EPOCHS * CONTINUAL_ENVIRONMENTS
    peer = "CartPole-v1 steps, for scale"
    works[peer], counts[peer] = _cartpole(CARTPOLE_STEPS), CARTPOLE_STEPS
    return [
        figure(name, "1/s", [counts[name] / s for s in values], "" if name == peer else note)
        for name, values in timed(works, rounds).items()
    ]


def _moves(envs: Any, environments: int) -> Work:
    """An episode: moves to workers; no slice moves twice before an epoch."""
    _, infos = envs.reset(seed=0)
    mask = infos["action_mask"] if environments == 1 else infos["action_mask"][0]
    rng = np.random.default_rng(0)
    shape = (EPOCHS, environments)
    slices = np.argsort(rng.random((*shape, SLICES)), axis=-1)[..., :MOVES]
    tiles = rng.choice(np.flatnonzero(mask[SLICES + 1 :]), (*shape, MOVES))
    actions = np.moveaxis(np.stack([slices, tiles], axis=-1), 2, 1).reshape(-1, environments, 2)

    def work() -> None:
        envs.reset(seed=0)
        for rows in actions:
            envs.step(rows[0] if environments == 1 else rows)

    return work


def decision_transformer(rounds: int, **_: Any) -> list[Figure]:
    """Training, and the placement of 256 slices, with the paper's sizes on one core.

    The weights are those after a few updates: they do not change the time.
    """
    note = f"batches of {BATCH}, 1 thread, CPU time"
    recipe = Recipe(
        env={"interference": "busy_core", "order": "load"},
        episodes=2,
        tier="random",
        behaviours=(Behaviour("random"),),
        reference_episodes=0,
    )
    # The first update also allocates; it ends where the first difference begins.
    agent = make("decision-transformer", updates=rounds + 1, batch_size=BATCH, threads=1)
    assert isinstance(agent, OfflineAgent)
    clocks: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        dataset = collect(recipe, Path(folder) / "data")
        agent.fit(dataset, progress=lambda done, total, metrics: clocks.append(process_time()))
    own = [(after - before) / BATCH for before, after in pairwise(clocks)]
    env = gymnasium.make(SPATIAL, reward="terminal", **recipe.env)

    def place() -> None:
        observation, info = env.reset(seed=1)
        agent.reset()
        terminated = False
        while not terminated:
            action = agent.act(observation, info["action_mask"])
            observation, _, terminated, _, info = env.step(action)

    return [
        figure("our training, the paper's sizes, a trajectory", "s", own, note),
        *(
            figure(
                f"256 decisions of the paper's Decision Transformer, {name} time",
                "s",
                timed({"": place}, rounds, clock)[""],
                "key-value cache, 1 thread; environment steps of terminal reward included",
            )
            for clock, name in ((perf_counter, "wall"), (process_time, "CPU"))
        ),
    ]


def _vector(name: str, number: int, mode: str = "vector_entry_point", **arguments: Any) -> Any:
    return gymnasium.make_vec(name, number, vectorization_mode=mode, **arguments)


def _episodes(envs: Any) -> Work:
    _, infos = envs.reset(seed=0)
    # The step after the last one resets.
    return _steps(envs, legal_tiles(infos["action_mask"], SLICES + 1))


def _steps(envs: Any, actions: npt.NDArray[np.int64]) -> Work:
    """A step of vector environments for each row of (steps, environments) actions."""

    def work() -> None:
        for row in actions:
            envs.step(row)

    return work


def legal_tiles(masks: npt.NDArray[np.int8], steps: int) -> npt.NDArray[np.int64]:
    """(steps, environments) tiles that the first of (environments, tiles) masks allows."""
    workers = np.flatnonzero(masks[0])
    return np.random.default_rng(0).choice(workers, (steps, masks.shape[0]))


def _cartpole(steps: int) -> Work:
    env = gymnasium.make(CARTPOLE)

    def work() -> None:
        env.reset(seed=0)
        for step in range(steps):
            if any(env.step(step % 2)[2:4]):
                env.reset(seed=0)

    return work
