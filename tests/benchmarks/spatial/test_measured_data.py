"""Data measured on a host: collecting, learning and re-scheduling, with no figure asserted."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pmoss_datasets
from pmoss_benchmarks.spatial.measured_data import (
    FEW,
    RULES,
    Block,
    Learner,
    MeasuredOptions,
    check_data,
    learners,
    measure_block,
    ratios,
    repeats,
    throughputs,
    train_learners,
)
from pmoss_datasets import Recipe, collect
from pmoss_datasets.card import card
from pmoss_datasets.suite import SHIPPED
from pmoss_env.errors import DatasetError, DescriptionError
from pmoss_env.machines import load_machine


def cells() -> list[dict[str, object]]:
    row = dict[str, object]
    return [
        {
            "number": number,
            "rows": [
                row(policy=name, episode=episode, before=2.0, after=after + number)
                for episode in (1, 0)
                for name, after in (("incumbent", 2.0), ("lpt", 3.0 + episode))
            ],
        }
        for number in (1, 0)
    ]


def test_learners_see_all_few_or_the_model() -> None:
    names = [learner.name for learner in learners(1000)]
    assert names == [
        "surrogate, 1000 measured",
        "surrogate, 100 measured",
        "surrogate, 10 measured",
        "surrogate, model",
        "surrogate, model + 10 measured",
        "surrogate, model + 100 measured",
    ]
    assert learners(FEW[0]) == [Learner(FEW[0], False), Learner(0, True)]


def test_episodes_are_compared_with_themselves() -> None:
    found = throughputs(cells())
    assert found["lpt"].tolist() == [3.0, 4.0, 4.0, 5.0]
    assert found["incumbent"].tolist() == [2.0, 2.0, 3.0, 3.0]
    assert ratios(cells(), ["incumbent"])["lpt"]["incumbent"]["value"] == pytest.approx(1.6)
    first, again = repeats(cells())
    assert first.tolist() == [2.0] * 4 and sorted(again) == [2.0, 2.0, 3.0, 3.0]


def test_an_episode_that_not_all_played_is_refused() -> None:
    broken = cells()
    broken[0]["rows"] = broken[0]["rows"][1:]  # type: ignore[index]
    with pytest.raises(DescriptionError, match="not every policy"):
        throughputs(broken)


def test_modelled_data_are_refused() -> None:
    with pytest.raises(DatasetError, match="was not measured"):
        check_data(pmoss_datasets.load(SHIPPED[0]))


def test_from_data_of_this_host_to_ratios(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    if load_machine("host").workers.size < 2:
        pytest.skip("placing needs two workers")
    env = {
        "machine": "host",
        "backend": "hardware",
        "slices": 4,
        "workload": "lookups",
        "load": "closed:64",
        "backend_options": {"records": 20_000, "seconds": 0.03, "warmup_seconds": 0.01},
    }
    recipe = Recipe(env=env, tier="measured", episodes=12, reference_episodes=0)
    data = collect(recipe, tmp_path / "data")
    options = MeasuredOptions(
        str(data.path),
        str(tmp_path),
        modelled=4,
        episodes=1,
        changes={"updates": 2, "members": 1, "width": 8, "features": 4, "demands": 2},
    )
    agents = train_learners(options)
    assert list(agents) == [learner.name for learner in learners(12)]
    block = measure_block(options, agents, Block(0))
    assert {row["policy"] for row in block["rows"]} == {*RULES, *agents}
    assert all(row["before"] > 0 and row["after"] > 0 for row in block["rows"])
    assert json.loads(json.dumps(block)) == block
    # Other settings make other checkpoints; the same ones are found again.
    made = {path: Path(path).stat().st_mtime_ns for path in agents.values()}
    assert len(made) == len(agents)
    assert train_learners(options) == agents
    assert made == {path: Path(path).stat().st_mtime_ns for path in agents.values()}
    assert not {*train_learners(replace(options, seed=1)).values()} & {*made}


def test_a_card_tells_the_spread_of_measurements(tmp_path: Path) -> None:
    env = {
        "machine": "host",
        "backend": "hardware",
        "slices": 4,
        "workload": "lookups",
        # Beside much other work a core may serve nobody for tens of milliseconds.
        "backend_options": {"records": 20_000, "seconds": 0.1, "warmup_seconds": 0.01},
    }
    stay = ({"policy": "incumbent"},)
    settings = {"env": env, "tier": "mine", "reference_episodes": 0, "behaviours": stay}
    few = collect(Recipe.from_dict({**settings, "episodes": 4}), tmp_path / "few")
    assert "A/A" not in card(few)
    data = collect(Recipe.from_dict({**settings, "episodes": 40}), tmp_path / "data")
    first, again = (data.column(f"{when}_throughput") for when in ("incumbent", "final"))
    served = (first > 0) & (again > 0)
    if served.sum() < 30:
        pytest.skip("the host served nothing in too many of these short measurements")
    ratio = float(np.exp(np.log(again[served] / first[served]).mean()))
    assert f"In {served.sum()} episodes the schedule stayed" in card(data)
    assert f"is {ratio:.3f} times the first" in card(data)
