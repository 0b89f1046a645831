"""The state encoder: its shapes and its place-keeping."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from pmoss_agents.spatial.encoders import StateEncoder  # noqa: E402
from pmoss_env.types import COUNTER_NAMES  # noqa: E402

H = len(COUNTER_NAMES)


def states(seed=0, batch=2, steps=3, tiles=6):
    rng = np.random.default_rng(seed)

    def draw(*shape):
        return torch.from_numpy(rng.gamma(2.0, 1.0, shape).astype(np.float32))

    return {
        "view_mask": (draw(batch, steps, tiles) > 2).float(),
        "position_mask": torch.ones(batch, steps, tiles),
        "machine_view": draw(batch, steps, tiles, H),
        "incumbent_view": draw(batch, 1, tiles, H),
        "slice_view": draw(batch, steps, H),
    }


def test_one_token_per_state_and_features_per_tile():
    encoder = StateEncoder((2, 3), H, channels=5, width=7)
    features, tokens = encoder(states())
    assert features.shape == (2, 3, 6, 5)
    assert tokens.shape == (2, 3, 7)


def test_a_distant_tile_keeps_its_features():
    encoder = StateEncoder((1, 9), H, channels=4, width=3, inputs=("slice", "core"))
    seen = states(tiles=9)
    before, _ = encoder(seen)
    seen["machine_view"][:, :, 0] += 1.0
    after, _ = encoder(seen)
    changed = (before != after).any(-1).any(0).any(0)
    assert changed[0]
    assert not changed[3:].any()  # two convolutions look two tiles far
