"""The card of data measured on a host, with no figure asserted."""

from pathlib import Path

import numpy as np
import pytest

from pmoss_datasets import Recipe, collect
from pmoss_datasets.card import card


def test_a_card_tells_the_spread_of_measurements(tmp_path: Path) -> None:
    env = {
        "machine": "host",
        "backend": "hardware",
        "slices": 4,
        "workload": "lookups",
        # Beside much other work a core may serve nothing for tens of milliseconds.
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
