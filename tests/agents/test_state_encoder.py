"""The state encoder: its derived channels, its standardisation and its place-keeping."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from pmoss_agents.state_encoder import (  # noqa: E402
    DERIVED,
    OUTLIER,
    Standardise,
    StateEncoder,
    derived_channels,
)
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


@pytest.mark.parametrize("derived", [True, False])
def test_one_token_per_state_and_features_per_tile(derived):
    encoder = StateEncoder((2, 3), H, channels=5, width=7, derived=derived)
    features, tokens = encoder(states())
    assert features.shape == (2, 3, 6, 5 + DERIVED * derived)
    assert tokens.shape == (2, 3, 7)


def test_a_distant_tile_keeps_its_features():
    encoder = StateEncoder((1, 9), H, channels=4, width=3, derived=False)
    seen = states(tiles=9)
    before, _ = encoder(seen)
    seen["machine_view"][:, :, 0] += 1.0
    after, _ = encoder(seen)
    changed = (before != after).any(-1).any(0).any(0)
    assert changed[0]
    assert not changed[3:].any()  # two convolutions look two tiles far


def test_standardised_counters_are_centred_and_bounded():
    standard = Standardise(2)
    samples = np.stack([np.arange(1.0, 101.0), np.full(100, 7.0)], axis=1)
    standard.set(samples)
    seen = standard(torch.from_numpy(samples.astype(np.float32))).numpy()
    assert abs(seen[:, 0].mean()) < 1e-3
    assert seen[:, 0].std() == pytest.approx(1.0, rel=1e-3)
    np.testing.assert_allclose(seen[:, 1], 0.0, atol=1e-5)  # a constant says nothing
    assert float(standard(torch.tensor([[1e30, 7.0]]))[0, 0]) == OUTLIER


def test_derived_channels_say_what_they_claim():
    machine, incumbent, slice_ = (torch.zeros(shape) for shape in ((1, 1, 3, 21), (1, 1, 3, 21), 0))
    slice_ = torch.zeros(1, 1, 21)
    incumbent[..., 2] = torch.tensor([1.0, 2.0, 0.0])  # task clock
    incumbent[..., 1] = torch.tensor([1.0, 4.0, 0.0])  # elapsed
    machine[..., 2] = torch.tensor([0.5, 0.5, 0.0])
    slice_[..., 2] = 0.25
    mask = torch.tensor([[[1.0, 1.0, 1.0]]])
    placed, added, slow, known, occupied, above = derived_channels(
        machine, incumbent, slice_, mask
    )[0, 0].T
    np.testing.assert_allclose(placed, [0.5, 0.5, 0.0])  # the mean busy time is 1
    np.testing.assert_allclose(added, [0.25] * 3)
    np.testing.assert_allclose(slow, [0, 1, 0])
    np.testing.assert_allclose(known, [1, 1, 0])
    np.testing.assert_allclose(occupied, [0.75, 1.5, 0.25])
    np.testing.assert_allclose(above, np.log(np.array([2, 5, 0]) + 1e-3), rtol=1e-5)
