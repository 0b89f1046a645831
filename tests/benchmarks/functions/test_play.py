"""Policies that play worlds: trained, evaluated, kept, replayed, summarised."""

from contextlib import closing
from dataclasses import replace

import pytest

pytest.importorskip("torch", reason="NOT RUN: the extra agents is missing")

import pmoss_agents
from pmoss_agents.conditions import same_bits
from pmoss_agents.retraining import TOLERANCE
from pmoss_agents.spatial.episodes import best_episodes
from pmoss_benchmarks.functions import play
from pmoss_benchmarks.functions.play import Settings, cells
from pmoss_benchmarks.offline.episodes import actions_of, episodes_of, pack, world_of
from pmoss_benchmarks.offline.guests import Guest
from pmoss_benchmarks.offline.tracks import TRACKS
from pmoss_benchmarks.study.function import Run, name_of, settings_of
from pmoss_benchmarks.study.runner import differences_of
from pmoss_benchmarks.study.store import Results
from pmoss_datasets.catalog import load
from pmoss_datasets.domain import find_domain
from pmoss_datasets.evaluation import EpisodeResult, episode_seed
from pmoss_datasets.formats.d3rlpy import import_d3rlpy
from pmoss_datasets.recipes import tier
from pmoss_datasets.suite import TOY, load_task, obtain
from pmoss_env.baselines import make_baseline
from pmoss_env.errors import DescriptionError, UnknownNameError
from pmoss_env.measuring import AUTO_NUMA
from tests.replays import recheck
from tests.sources import REPOSITORY

AGENT = "surrogate"
FEW = {
    "tasks": (TOY,),
    "seeds": 2,
    "policies": ("lpt", "local-search", "shared-everything", AUTO_NUMA, "exact"),
    "guests": {
        "best-fit + 3": Guest(rule="best-fit", measurements=3),
        "shipped": Guest(agent="pmoss/surrogate-busy-core-v0"),
    },
    "logged": {"best quarter of the data": 0.25},
    "agents": (AGENT,),
    "changes": {AGENT: {"updates": 4, "members": 1, "width": 8, "features": 4, "demands": 2}},
    "episodes": 2,
    "validation_episodes": 1,
    "checkpoints": 2,
    "search_budget": 60,
    "random_schedules": 5,
    "common": True,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    folder = tmp_path_factory.mktemp("play")
    return Run(Settings(**FEW), folder / "data", folder / "keep", folder / "results")


@pytest.fixture(scope="module")
def rows(run: Run) -> list[dict]:
    def shortened(name: str, domain: str) -> dict:
        return {**tier(name, domain), "episodes": 8, "reference_episodes": 0}

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(play, "tier", shortened)
        play.prepare(run, lambda what, done, total: None)
        work = play.Work(run)
        made = [{"cell": name_of(c), "run": "x", **c, **work(c)} for c in cells(run.settings)]
    return made


def test_policies_that_do_not_learn_play_once_and_agents_once_a_training(rows) -> None:
    assert {(row["policy"], row["seed"]) for row in rows} == {
        *((name, 0) for name in (*FEW["policies"], *FEW["guests"], *FEW["logged"])),
        (AGENT, 0),
        (AGENT, 1),
    }
    by_name = {(row["policy"], row["seed"]): row for row in rows}
    assert len(by_name["shared-everything", 0]["shared"]) == 2
    domain, world = find_domain("spatial"), world_of(by_name[AUTO_NUMA, 0])
    options = {"backend_options": {"numa_balancing": True}}
    with closing(domain.make_env({**world, **options})) as balanced:
        for number, (outcome, _) in enumerate(by_name[AUTO_NUMA, 0]["shared"]):
            balanced.reset(seed=episode_seed(play.EVALUATION_SEED, number))
            schedule = make_baseline("os-default", shared=True)(balanced.context(None))
            assert outcome == balanced.backend.measure(schedule, seed=0).throughput
    agent = by_name[AGENT, 0]
    assert [updates for updates, _ in agent["curve"]] == [2, 4]
    assert agent["training"]["source"]["id"].endswith("/mixed-v0")
    assert set(agent["played"]) == {AGENT, f"{AGENT} (best)"}
    # All meet the same episodes.
    assert len({tuple(p["env_seed"]) for row in rows for p in _packed(row)}) == 1


def test_the_best_of_the_data_are_scored_in_their_own_instances(run: Run, rows) -> None:
    (row,) = (row for row in rows if row["policy"] in FEW["logged"])
    dataset = load(run.data / "pmoss" / TOY / "mixed-v0")
    outcomes = sorted(dataset.column("final_throughput"))[-2:]
    assert sorted(outcome for outcome, _ in row["shared"]) == outcomes
    env = dataset.domain.make_env(world_of(row))
    for number, (outcome, score) in zip(best_episodes(dataset, 0.25), row["shared"], strict=True):
        env.reset(seed=dataset[number].seed)
        again = dataset.domain.rerun(env, dataset[number].seed, dataset[number].actions)
        assert again.outcome == pytest.approx(outcome, rel=1e-12) and score is not None


def _packed(row: dict) -> list[dict]:
    return [packed for packed in row.get("played", {}).values() if packed != "last"]


def test_rows_replay_and_an_altered_value_is_found(run: Run, rows) -> None:
    for row in rows:
        assert recheck(play, run, row) == []
        for packed in _packed(row):
            packed["throughput"][1] += 1e-9
            assert "throughput[1]: stored" in recheck(play, run, row)[0]
            packed["throughput"][1] -= 1e-9


def test_the_best_checkpoint_plays_alone_where_the_last_is_not_asked_for(run: Run, rows) -> None:
    (own, *_) = (row for row in rows if row["policy"] == AGENT)
    alone = Run(replace(run.settings, last=False), run.data, run.keep, run.results)
    row = play.Work(alone)({name: own[name] for name in ("track", "task", "policy", "seed")})
    best = own["played"][f"{AGENT} (best)"]
    best = own["played"][AGENT] if best == "last" else best
    assert set(row["played"]) == {AGENT} and row["best"] == own["best"]
    assert row["played"][AGENT]["throughput"] == best["throughput"]
    guests = {row["policy"]: row for row in rows if row["policy"] in FEW["guests"]}
    assert [guest["measurements"] for guest in guests.values()] == [3, 0]


def test_a_training_may_begin_with_an_agent_that_ships(run: Run, rows, tmp_path) -> None:
    (own, *_) = (row for row in rows if row["policy"] == AGENT)
    starts = {AGENT: "pmoss/surrogate-busy-core-v0"}
    settings = replace(run.settings, last=False, changes={AGENT: {"updates": 2}}, starts=starts)
    started = Run(settings, run.data, tmp_path, run.results)
    row = play.Work(started)({name: own[name] for name in ("track", "task", "policy", "seed")})
    assert row["training"]["config"] == {"updates": 2} and row["training"]["updates"] == 2
    (kept,) = tmp_path.rglob("1.safetensors")
    ships, tuned = (pmoss_agents.load(each) for each in (starts[AGENT], kept))
    assert tuned.config == replace(ships.config, updates=2, seed=0)


def test_actions_are_packed_and_read_again(rows) -> None:
    (agent, _) = (row for row in rows if row["policy"] == AGENT)
    actions = actions_of(agent["played"][AGENT])
    assert len(actions) == 2 and all(len(acted) == 8 for acted in actions)
    episodes = episodes_of(agent)
    assert [one.policy for one in episodes] == [AGENT, AGENT, f"{AGENT} (best)", f"{AGENT} (best)"]
    assert all(one.illegal_actions == 0 for one in episodes)
    assert actions_of(pack([_row((70_000, 3)), _row((1,))])) == [(70_000, 3), (1,)]
    assert "actions" not in pack([_row((1,))], actions=False)


def _row(actions: tuple[int, ...]) -> EpisodeResult:
    return EpisodeResult("x", 101, 0, 1, 1.0, 1.0, 1.0, 1.0, 1.0, 0, actions, 0.1)


def test_tracks_choose_worlds_and_agents() -> None:
    settings = Settings(
        tasks=("skylake-x-8n-btree-scans", TOY),
        tracks=("same-task", "unseen-machine", "noise"),
        only={"noise": (TOY,)},
        seeds=2,
        policies=("lpt",),
        agents=("bc", AGENT),
        agents_of={"noise": (AGENT,)},
        seeds_of={"bc": 1},
    )
    chosen = cells(settings)
    assert {c["task"] for c in chosen if c["track"] == "unseen-machine"} == {settings.tasks[0]}
    assert {c["policy"] for c in chosen if c["track"] == "noise"} == {"lpt", AGENT}
    assert {c["seed"] for c in chosen if c["policy"] == "bc"} == {0}
    assert all(name in TRACKS for name in settings.tracks)
    sister = "uv-300h-access-path-scans-16"
    chosen = cells(Settings(tasks=(TOY, sister), seeds=1))
    assert {(c["track"], c["task"]) for c in chosen} == {
        ("same-task", TOY),
        ("access-path", sister),
    }


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"tasks": ("no-task",)}, UnknownNameError, "no-task"),
        ({"tracks": ("no-track",)}, UnknownNameError, "no-track"),
        ({"agents": ("no-agent",)}, UnknownNameError, "no-agent"),
        ({"agents": ("threads-rule",)}, UnknownNameError, "threads-rule"),
        ({"policies": ("no-rule",)}, UnknownNameError, "no-rule"),
        ({"tier": "no-tier"}, UnknownNameError, "no-tier"),
        ({"seeds_of": {"no-agent": 2}}, UnknownNameError, "no-agent"),
        ({"only": {"no-track": (TOY,)}}, UnknownNameError, "no-track"),
        ({"logged": {"all": 2.0}}, DescriptionError, "logged.all = 2"),
    ],
)
def test_what_is_wrong_is_named(changes, error, words) -> None:
    with pytest.raises(error, match=words):
        Settings(**{**FEW, **changes})


def test_a_row_of_another_config_is_told_from_those_of_today(run: Run, rows) -> None:
    changes = {AGENT: {**FEW["changes"][AGENT], "updates": 50}}
    other = replace(run.settings, changes=changes, guests={})
    assert all(play.differs(run.settings, row) == "" for row in rows)
    words = {row["policy"]: play.differs(other, row) for row in rows}
    assert words == {**dict.fromkeys(words, ""), AGENT: f"{AGENT}.updates"}


@pytest.mark.parametrize("values", [{}, {"agent": "a", "rule": "lpt"}, {"rule": "no-rule"}])
def test_a_guest_is_an_agent_or_a_rule(values) -> None:
    with pytest.raises((DescriptionError, UnknownNameError)):
        Guest(**values)


def test_learners_of_the_track_complete_see_all_slices(run: Run, rows) -> None:
    import_d3rlpy()
    few = {"updates": 2, "channels": 4, "width": 8, "batch_size": 8}
    settings = replace(run.settings, agents=("bc",), changes={"bc": few})
    cell = {"track": "complete", "task": TOY, "policy": "bc", "seed": 0}
    row = play.Work(replace(run, settings=settings))(cell)
    assert row["training"]["config"] == {**play.config_of(settings, "bc", TOY), "complete": True}
    (other, *_) = (row for row in rows if row["policy"] == AGENT)
    assert row["training"]["source"] == other["training"]["source"]
    assert row["played"]["bc"]["env_seed"] == other["played"][AGENT]["env_seed"]
    assert recheck(play, run, {**cell, **row}) == []


def test_the_code_of_rows_is_that_of_the_agents_too() -> None:
    settings = Settings(**{**FEW, "agents": (AGENT, "cql"), "agents_of": {"noise": ("iql",)}})
    names = [f"pmoss_agents.spatial.{name}" for name in ("cql", "iql", "surrogate")]
    assert play.modules(settings) == names


@pytest.fixture(scope="module")
def core(tmp_path_factory) -> tuple[Run, list[dict]]:
    """The stored rows of the core task whose trainings are shortest, and its data made anew."""
    results, task = Results(REPOSITORY), "random-smt-30000014-btree-hot-range-a-all-noise-1"
    rows = [row for row in results["core"].rows if row["task"] == task and row["seed"] == 0]
    folder = tmp_path_factory.mktemp("core")
    settings = settings_of(play, results.study("core").settings)
    run = Run(settings, folder / "data", folder / "keep", results.folder)
    recipe = play.recipe_of(run.settings, "same-task", task)
    obtain(recipe, run.data / recipe.id, lambda *_: None, headroom=load_task(task).headroom)
    return run, rows


@pytest.mark.heavy
@pytest.mark.parametrize("agent", ["bc", "percentile-bc", "cql", "iql", "decision-transformer"])
def test_a_training_made_again_gives_the_stored_row(core, agent):
    run, rows = core
    (row,) = (row for row in rows if row["policy"] == agent)
    work = play.Work(run)
    packed = row["played"][agent]
    ends = zip(packed["random_throughput"], packed["search_throughput"], strict=True)
    work._known["same-task", row["task"]] = dict(zip(packed["env_seed"], ends, strict=True))
    again = work({key: row[key] for key in ("track", "task", "policy", "seed")})
    before, now = (each["training"].pop("conditions") for each in (dict(row), again))
    losses = before.pop("losses")
    assert now["losses"] == pytest.approx(losses, rel=TOLERANCE)
    if same_bits(before, now):
        assert not differences_of(play, row, again)
