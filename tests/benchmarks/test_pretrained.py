"""Agents that ship are those of the stored results, and commands take them by name."""

import hashlib
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")
pytest.importorskip("h5py")

import pmoss_agents
from pmoss_agents import pretrained
from pmoss_agents.policies import named_policies
from pmoss_benchmarks.offline import pretrained as publishing
from pmoss_benchmarks.offline.episodes import world_of
from pmoss_benchmarks.offline.pretrained import publish
from pmoss_benchmarks.study.store import StoredStudy, read_stored
from pmoss_datasets.domain import find_domain
from pmoss_datasets.spatial.world_sets import WorldsRecipe, make_worlds
from pmoss_env.errors import DatasetError, DescriptionError
from tests.benchmarks.study.run_line import RUN_LINE
from tests.cli.invoking import pmoss, pmoss_json

REPOSITORY = Path(__file__).resolve().parents[2]
BUSY = "pmoss/surrogate-busy-core-v0"
STREAM = "pmoss/surrogate-memory-stream-v0"


def test_it_plays_as_the_stored_rows_say() -> None:
    card = pretrained.card(BUSY)
    stored = read_stored(REPOSITORY / card.score.results)
    row = next(
        row
        for row in stored.rows
        if (row["track"], row["policy"]) == ("same-task", card.agent)
        and row["training"]["source"]["checksum"] == card.dataset["checksum"]
    )
    domain, packed = find_domain(card.domain), row["played"][card.agent]
    env = domain.make_env(world_of(row))
    judge = domain.judge(env)
    agent = pmoss_agents.load(BUSY)
    agent.check_env(env)
    env.reset(seed=packed["env_seed"][0])
    judge.begin()
    played = domain.play(env, agent, packed["env_seed"][0], judge)
    # Another processor may round otherwise, so that a slice or two go elsewhere.
    assert played.outcome == pytest.approx(packed["throughput"][0], rel=0.02)
    judge.close()
    env.close()


def test_a_card_of_worlds_says_what_the_rows_and_the_weights_say() -> None:
    card = pretrained.card("pmoss/generalist-v1")
    score = publishing._score(card.sha256, read_stored(REPOSITORY / card.score.results))
    numbers = [(of.value, of.low, of.high, of.episodes) for of in (score, card.score)]
    assert numbers[1] == pytest.approx(numbers[0]) and score.unit == card.score.unit
    data = SimpleNamespace(id=card.dataset["id"])
    made = publishing._training_command(
        pmoss_agents.load(card.name),
        data,  # type: ignore[arg-type]
        Path("runs/worlds"),
        Path("runs/generalist.safetensors"),
    )
    assert card.commands[1] == made


def test_agents_of_one_environment_play_in_no_other() -> None:
    with pytest.raises(DescriptionError, match="is for the environment spatial, not for threads"):
        named_policies([BUSY], domain="threads")
    assert named_policies([BUSY, STREAM]).domain.name == "spatial"


def test_commands_take_the_name(tmp_path: Path) -> None:
    task = ("-e", "slices=8", "-e", "interference=busy_core")
    assert "surrogate-busy-core-v0" in pmoss("explain", "lpt", BUSY, "--machine", "toy", *task)
    rolled = ("run", "rollout", BUSY, "--machine", "toy", "--backend", "analytic")
    assert "surrogate-busy-core-v0" in pmoss(*rolled, *task, "--episodes", "1")
    few = ("--seeds", "1", "--episodes", "1", "--budget", "20", "--schedules", "5")
    words = ("evaluate", BUSY, "lpt", "-e", "machine=toy", *task, *few)
    assert {row["policy"] for row in pmoss_json(*words)} == {"lpt", "surrogate-busy-core-v0"}
    assert "Known: pmoss/forecaster" in pmoss("evaluate", "pmoss/none", status=2)


def test_lists_and_cards() -> None:
    rows = {row["name"]: row for row in pmoss_json("list", "agents")}
    assert rows[BUSY]["domain"] == "spatial" and rows["surrogate"]["learns from"] == "data"
    assert BUSY not in {row["name"] for row in pmoss_json("list", "agents", "threads")}
    assert pmoss_json("list", "agents", BUSY)["name"] == BUSY
    assert "licence: Apache-2.0" in pmoss("list", "agents", STREAM)
    assert "unknown pretrained agent" in pmoss("list", "agents", "pmoss/surrogate", status=2)


def test_cards_are_made_of_results_of_the_very_agent(tmp_path: Path) -> None:
    data = REPOSITORY / "datasets/pmoss_datasets/shipped/pmoss/toy-btree-ycsb-a-busy-core/mixed-v0"
    results = REPOSITORY / "benchmarks/results/zero-shot.jsonl"
    with pytest.raises(DatasetError, match="holds no made-up worlds"):
        publish(pretrained.find(BUSY), data, results, tmp_path, "mine")
    worlds = make_worlds(WorldsRecipe(count=8), tmp_path / "worlds")
    with pytest.raises(DatasetError, match="did not learn from"):
        publish(pretrained.find(BUSY), worlds.path, results, tmp_path, "mine")
    few = {"members": 1, "updates": 1, "width": 8, "features": 4, "demands": 2, "held": 2}
    agent = pmoss_agents.make("generalist", **few, batch_size=2, context=4, time_width=4)
    agent.fit(worlds)  # type: ignore[attr-defined]
    mine, out = tmp_path / "mine.safetensors", tmp_path / "out"
    agent.save(mine)
    out.mkdir()
    shipped = out / "mine.safetensors"
    shipped.write_text("what ships so far")
    with pytest.raises(DatasetError, match="has no rows of the weights"):
        publish(mine, worlds.path, results, out, "mine")
    assert list(out.iterdir()) == [shipped] and shipped.read_text() == "what ships so far"
    pretrained.slim(mine, tmp_path / "slim.safetensors")
    digest = hashlib.sha256((tmp_path / "slim.safetensors").read_bytes()).hexdigest()
    rows = [
        {"cell": world, "run": "x", "world": world, "checkpoint": digest, "policies": {"a": scores}}
        for world, scores in {"toy/a": {"scores": [90, 92]}, "toy/b": {"scores": [94, 96]}}.items()
    ]
    StoredStudy(
        tmp_path / "r.jsonl", "zero-shot", {"budget": 50}, ["world"], {"x": RUN_LINE}, rows
    ).write()
    card = publish(mine, worlds.path, tmp_path / "r.jsonl", out, "mine")
    assert (card.score.value, card.score.episodes, card.sha256) == (93.0, 4, digest)
    assert "--set updates=1" in card.commands[1]


@pytest.mark.parametrize(
    ("name", "share"), [("forecaster-jobs-v1", "93"), ("forecaster-jobs-v2", "91")]
)
def test_a_forecaster_plays_what_it_is_for(name: str, share: str) -> None:
    card = pretrained.card(f"pmoss/{name}")
    assert card.domain == "continual" and card.env["drift"] == "jobs"
    assert share in pmoss("list", "agents", f"pmoss/{name}")
    task = ("-e", "machine=toy", "-e", "slices=8", "-e", "epochs=4", "-e", "drift=jobs")
    few = ("--seeds", "1", "--episodes", "1", "--budget", "20", "--schedules", "5")
    words = ("evaluate", f"pmoss/{name}", "stay", "--domain", "continual")
    rows = pmoss_json(*words, *task, *few)
    assert {row["policy"] for row in rows} == {"stay", name}
    assert all(row["illegal_actions"] == 0 for row in rows)
