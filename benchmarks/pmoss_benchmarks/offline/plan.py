"""What a benchmark run consists of: suites, and their cells (track, task, agent, seed)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pmoss_agents
from pmoss_agents.configs import has_config, identity, read_config
from pmoss_agents.registry import OWN, agent_class, listings
from pmoss_benchmarks.functions.references import LONG_BUDGET
from pmoss_benchmarks.offline.opponents import OPPONENTS, is_opponent
from pmoss_benchmarks.offline.tracks import TRACKS, load_track
from pmoss_datasets.domain import Domain, domain_names, find_domain
from pmoss_datasets.recipes import Recipe, tier
from pmoss_datasets.schema import FIRST_DOMAIN
from pmoss_datasets.suite import TOY, load_task, paper_tasks, task_names
from pmoss_env.errors import DescriptionError, MissingExtraError, UnknownNameError

#: Seeds of the evaluation and of the choice of the best checkpoint begin here: episodes that
#: neither a dataset nor the other of both has.
EVALUATION_SEED, VALIDATION_SEED = 101, 1001
#: Tier of the data where nothing else is said.
USUAL_TIER = "mixed"
#: The servers of P-MOSS section 7.1 that its policies are trained on.
PAPER_MACHINES = ("skylake-x-8n", "milan-nps4", "milan-nps1", "sandy-bridge", "grace-hopper")


@dataclass(frozen=True)
class Plan:
    """How much of everything; the same plan and versions give the same bits.

    Attributes:
        name: of the suite.
        tasks: names of committed tasks.
        tracks: names of tracks.
        seeds: runs of each agent on each task.
        tier: of the datasets.
        episodes: of the evaluation of each run.
        validation_episodes: by which the best of the checkpoints is chosen.
        checkpoints: of each training, evenly spaced; the last one is at its end.
        search_budget: evaluations of the model that each search has, and that of score 100.
        long_search: evaluations of the references that are score 100 instead; 0: none. Worlds
            other than the task's own have no references.
        common: whether all training seeds meet the same episodes; then opponents play once.
        random_schedules: whose mean is score 0, per episode.
        opponents: the domain's policies that play; None: all of them. "exact" plays only where the
            instance is small enough.
        agents: that play where none are asked for; None: all that learn.
        only: for each track named here, the tasks that have it; others have all tracks.
        changes: by agent, fields that override its committed config.
    """

    name: str
    tasks: tuple[str, ...]
    tracks: tuple[str, ...] = ("same-task",)
    seeds: int = 5
    tier: str = USUAL_TIER
    episodes: int = 4
    validation_episodes: int = 4
    checkpoints: int = 5
    search_budget: int = 2000
    long_search: int = 0
    common: bool = False
    random_schedules: int = 100
    opponents: tuple[str, ...] | None = None
    agents: tuple[str, ...] | None = None
    only: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    changes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for task in self.tasks:
            load_task(task)
        for track in self.tracks:
            load_track(track)
        for domain in self.domains:
            tier(self.tier, domain.name)
            for name in self.opponents or ():
                domain.policy(name)
        for name in ("seeds", "episodes", "validation_episodes", "checkpoints"):
            if getattr(self, name) < 1:
                raise DescriptionError(f"{name} = {getattr(self, name)}: must be at least 1")

    @property
    def domains(self) -> tuple[Domain, ...]:
        """Those of the tasks."""
        return tuple(find_domain(n) for n in dict.fromkeys(load_task(t).domain for t in self.tasks))

    @property
    def settings(self) -> dict[str, Any]:
        """What the result of every cell depends on besides the cell itself."""
        names = (
            "tier",
            "episodes",
            "validation_episodes",
            "checkpoints",
            "search_budget",
            "random_schedules",
        )
        # Told only where they are set: the results of earlier versions lack them.
        later = {"long_search": self.long_search, "common": self.common}
        told = {name: value for name, value in later.items() if value}
        return {**{name: getattr(self, name) for name in names}, **told}

    def part(
        self,
        tasks: Sequence[str] | None = None,
        tracks: Sequence[str] | None = None,
        seeds: int | None = None,
        tier: str | None = None,
    ) -> Plan:
        """The same with some of the tasks and tracks, other data, or another number of seeds."""
        return replace(
            self,
            tasks=tuple(tasks or self.tasks),
            tracks=tuple(tracks or self.tracks),
            seeds=seeds or self.seeds,
            tier=tier or self.tier,
        )


CORE = Plan(
    "core",
    tasks=(
        "skylake-x-8n-btree-ycsb-a-busy-core",
        "skylake-x-8n-btree-ycsb-a-memory-stream",
        "milan-nps4-btree-scans-cache-thrash",
    ),
    # Playing costs as much as training: what choosing the best checkpoint takes is kept small.
    validation_episodes=2,
    checkpoints=3,
    seeds=3,
    episodes=100,
    long_search=LONG_BUDGET,
    common=True,
    # What learns by playing has the budget that its field gives it.
    changes={"maskable-ppo": {"steps": 10_000_000}, "dqn": {"steps": 10_000_000}},
)
_MILAN, _SKYLAKE = "milan-nps4-btree-ycsb-a", "skylake-x-8n-btree-ycsb-a"
#: What the paper's policies never met (section 7.5), and the tasks of those policies.
PAPER_UNSEEN = {
    "workload": (_MILAN,),
    "distribution": (_MILAN,),
    "machine": (_MILAN, _SKYLAKE),
}
#: Every pair of server and workload that P-MOSS reports, closed and under a backlog. Agents and
#: data are small, so that one training of each takes hours of one core, not days.
PAPER = Plan(
    "paper",
    tasks=(
        *paper_tasks(),
        "skylake-x-8n-btree-scans",
        # The paper has 50 million points. To profile them takes a minute in every process.
        "skylake-x-8n-rtree-rtree-ranges-5m",
        *(f"{machine}-btree-ycsb-a" for machine in PAPER_MACHINES),
    ),
    tracks=(
        "same-task",
        "saturated",
        *(f"unseen-{what}{load}" for load in ("", "-saturated") for what in PAPER_UNSEEN),
    ),
    seeds=1,
    tier="paper",
    episodes=10,
    validation_episodes=1,
    checkpoints=1,
    common=True,
    agents=("surrogate", "decision-transformer"),
    # Section 7.5: W4, W5 and the other servers are met by policies of two servers.
    only={
        f"unseen-{what}{load}": tasks
        for load in ("", "-saturated")
        for what, tasks in PAPER_UNSEEN.items()
    },
    changes={
        "surrogate": {"members": 1, "updates": 300},
        "decision-transformer": {
            "layers": 1,
            "width": 32,
            "channels": 12,
            "joint": 16,
            "updates": 150,
            "batch_size": 2,
        },
    },
)
#: The tracks of spatial scheduling.
OF_FIRST = tuple(
    name for name, track in TRACKS.items() if track.domain == FIRST_DOMAIN and not track.trained_for
)
SUITES: Mapping[str, Plan] = {
    plan.name: plan
    for plan in (
        CORE,
        Plan(
            "standard",
            tasks=tuple(name for name in task_names() if name != TOY),
            tracks=OF_FIRST,
            seeds=1,
            episodes=40,
            long_search=LONG_BUDGET,
            common=True,
        ),
        # The paper's five servers (P-MOSS, section 7.2) without co-tenants, in both loads.
        Plan(
            "machines",
            tasks=tuple(f"{machine}-btree-ycsb-a" for machine in PAPER_MACHINES),
            tracks=("same-task", "saturated"),
            seeds=2,
            episodes=10,
            common=True,
        ),
        PAPER,
        Plan(
            "quick",
            tasks=(TOY,),
            tracks=OF_FIRST,
            seeds=2,
            episodes=2,
            validation_episodes=1,
            checkpoints=2,
            search_budget=100,
            random_schedules=20,
            changes={
                "decision-transformer": {"updates": 30, "layers": 1, "width": 32},
                "maskable-ppo": {"steps": 4096, "rounds": 2},
                "dqn": {"steps": 2048},
            },
        ),
        # The other two environments: a small task each.
        Plan(
            "sisters",
            tasks=(
                "xeon-6240m-optane-threads-fillrandom-requests-1000000",
                "uv-300h-access-path-scans-16",
            ),
            tracks=("threads", "access-path"),
            seeds=2,
            episodes=2,
            validation_episodes=1,
            checkpoints=2,
            random_schedules=20,
        ),
    )
}


@dataclass(frozen=True)
class OfflineCell:
    """One run: of an agent, or of an opponent.

    Attributes:
        track: name.
        task: name.
        agent: name of an agent, or of a baseline.
        seed: of training; it also chooses the episodes of the evaluation.
        config: the agent's config and the recipe of its data in short: results of others are not
            taken for its own.
    """

    track: str
    task: str
    agent: str
    seed: int
    config: str

    @property
    def name(self) -> str:
        """E.g. "same-task/toy-btree-ycsb-a-busy-core/cql/0/1a2b3c4d"."""
        return f"{self.track}/{self.task}/{self.agent}/{self.seed}/{self.config}"


def load_suite(name: str) -> Plan:
    """A suite by its name, or by a domain's: all its tasks on the track of that name.

    Raises:
        UnknownNameError: there is none.
    """
    if name in SUITES:
        return SUITES[name]
    if name not in domain_names():
        raise UnknownNameError("suite", name, [*SUITES, *domain_names()])
    return Plan(name, tasks=task_names(name), tracks=(name,), seeds=2)


def config_of(plan: Plan, agent: str, task: str) -> dict[str, Any]:
    """An agent's committed config for a task, with the plan's changes; no seed in it."""
    committed = read_config(agent, task) if has_config(agent) else {}
    committed.pop("agent", None)
    return {**committed, **plan.changes.get(agent, {})}


def recipe_of(plan: Plan, track: str, task: str) -> Recipe:
    """The recipe of the data that agents of a track learn from."""
    known = load_task(task)
    env = load_track(track).training_env(known.env)
    keys = {"tier": plan.tier, "env": env, "domain": known.domain}
    return Recipe.from_dict({**tier(plan.tier, known.domain), **keys})


def usable_agents(
    plan: Plan, asked: Sequence[str] | None = None
) -> tuple[list[str], dict[str, str]]:
    """The agents and opponents of the benchmark, and of those left out why.

    Args:
        plan: names the opponents.
        asked: names, or ``module:Class``, which then must be usable; OPPONENTS stands for all of
            them. None: all that are registered, but ours that learn nothing.

    Raises:
        UnknownNameError: no such agent.
        MissingExtraError: an agent that was asked for needs a package that is not installed.
        PluginError: an agent of another package cannot be imported.
    """
    domains = plan.domains
    opponents = list(
        dict.fromkeys(
            name
            for domain in domains
            for name in (*(plan.opponents or domain.opponents()), *domain.unplaced)
        )
    )
    names = {"", *(domain.name for domain in domains)}
    mine = [
        each for each in listings() if each.domain in names and not each.problem and not each.plain
    ]
    known = sorted(each.name for each in mine)
    for name in asked or ():
        if ":" in name:
            if agent_class(name).domain not in names:
                raise UnknownNameError(f"agent of {' or '.join(sorted(names - {''}))}", name, known)
        elif name not in (*known, OPPONENTS, *opponents):
            raise UnknownNameError("agent", name, [*known, OPPONENTS, *opponents])
    usable: list[str] = []
    left_out: dict[str, str] = {}
    learn = sorted(e.name for e in mine if e.learns != "nothing" or e.name not in OWN)
    for name in [OPPONENTS, *(plan.agents or learn)] if asked is None else asked:
        if name == OPPONENTS or name in opponents:
            usable += opponents if name == OPPONENTS else [name]
            continue
        try:
            pmoss_agents.make(name).check_extras()
        except MissingExtraError as error:
            if asked is not None:
                raise
            left_out[name] = str(error)
        else:
            usable.append(name)
    return list(dict.fromkeys(usable)), left_out


def worlds_of(plan: Plan) -> list[tuple[str, str]]:
    """The tracks of a plan, each with the tasks that have it."""
    return [
        (track, task)
        for track in plan.tracks
        for task in plan.tasks
        if task in plan.only.get(track, plan.tasks)
        and load_track(track).evaluation_env(load_task(task)) is not None
    ]


def cells_of(plan: Plan, agents: Sequence[str]) -> list[OfflineCell]:
    """All cells of a plan: seed by seed, and those that meet the same episodes together."""
    runs = {
        (track, task): [
            (agent, digest(plan, track, agent, task)) for agent in agents if _plays(agent, task)
        ]
        for track, task in worlds_of(plan)
    }
    return [
        OfflineCell(track, task, agent, seed, config)
        for track in plan.tracks
        for seed in range(plan.seeds)
        for task in plan.tasks
        for agent, config in runs.get((track, task), ())
        if seed == 0 or not (plan.common and is_opponent(agent, task))
    ]


def _plays(agent: str, task: str) -> bool:
    """Whether an agent or opponent is one for a task's domain."""
    if is_opponent(agent, task):
        return True
    try:
        return agent_class(agent).domain in ("", load_task(task).domain)
    except UnknownNameError:  # an opponent of another domain
        return False


def needs_data(cell: OfflineCell) -> bool:
    """Whether a cell's agent learns from a dataset."""
    return not is_opponent(cell.agent, cell.task) and agent_class(cell.agent).learns == "offline"


def is_current(plan: Plan, name: str, asked: Sequence[str] = ()) -> bool:
    """Whether a cell's result is of the config and data that its agent has now, by its name.

    The results of an agent or opponent that is not installed here stay. So do those of
    ``module:Class``, unless it is among ``asked``: what a file names is never imported.
    """
    track, task, agent, _, config = name.split("/")
    known = (*asked, *pmoss_agents.agent_names())
    if not is_opponent(agent, task) and agent not in known:
        return True
    return digest(plan, track, agent, task) == config


def digest(plan: Plan, track: str, agent: str, task: str) -> str:
    """What decides a cell besides its other names, in eight hexadecimal digits."""
    facts: Any = {"baseline": agent}
    if not is_opponent(agent, task):
        made = pmoss_agents.make(agent, **config_of(plan, agent, task))
        # With all defaults: a new field, or another default, is another agent.
        facts = {"config": identity(made.config)}
        if made.learns == "offline":
            facts["data"] = recipe_of(plan, track, task).as_dict()
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:8]
