"""The state encoder: its derived channels, its standardisation and its place-keeping."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from pmoss_agents.spatial.state_encoder import (  # noqa: E402
    DERIVED,
    OUTLIER,
    OVERLOAD,
    Standardise,
    StateEncoder,
    derived_channels,
)
from pmoss_env.baselines import make_baseline  # noqa: E402
from pmoss_env.envs.spatial.env import SpatialSchedulingEnv  # noqa: E402
from pmoss_env.machines import load_machine  # noqa: E402
from pmoss_env.types import COUNTER_INDEX, COUNTER_NAMES  # noqa: E402

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
    machine, incumbent = torch.zeros(1, 1, 4, H), torch.zeros(1, 1, 4, H)
    slice_ = torch.zeros(1, 1, H)
    clock, elapsed, cycles, in_memory, misses = (
        COUNTER_INDEX[name]
        for name in ("task_clock_us", "elapsed_us", "cycles", "cycles_mem_any", "l1d_misses")
    )
    # Half of the time of tiles 0 and 1 is spent in memory, where a miss costs 0.5; in the domain
    # of tile 2 it costs 2. The last tile is no worker.
    incumbent[..., clock] = torch.tensor([1.0, 1.0, 3.0, 0.0])
    incumbent[..., elapsed] = torch.tensor([1.0, 2.0, 3.0, 0.0])
    incumbent[..., cycles] = 100 * incumbent[..., clock]
    incumbent[..., in_memory] = torch.tensor([50.0, 50.0, 200.0, 0.0])
    incumbent[..., misses] = torch.tensor([1.0, 1.0, 1.0, 0.0])
    for counters, share in ((machine[0, 0, 0], 0.4), (slice_[0, 0], 0.1)):
        counters[clock], counters[cycles], counters[in_memory] = share, 100 * share, 50 * share
        counters[misses] = share
    mask = torch.tensor([[[1.0, 1.0, 1.0, 0.0]]])
    domains = torch.tensor([0, 0, 1, -1])
    placed, plain, slow, ran, occupied, above, dear, fits, behind = derived_channels(
        machine, incumbent, slice_, mask, domains
    )[0, 0].T.numpy()
    # Everything on one core: 2 outside memory and 3 misses.
    alone = np.array([2 + 3 * 0.5, 2 * (2 + 3 * 0.5), 2 + 3 * 2])
    unit = 1 / (1 / alone).sum()
    np.testing.assert_allclose(placed[:3], [0.4 / unit, 0, 0], rtol=1e-5)
    np.testing.assert_allclose(plain, [0.1 / unit] * 4, rtol=1e-5)
    np.testing.assert_allclose(slow, [0, 1, 0, 0])
    np.testing.assert_allclose(ran, [1, 1, 1, 0])
    expected = np.array([0.5, 0.2, 0.25]) / unit
    np.testing.assert_allclose(occupied[:3], expected, rtol=1e-5)
    np.testing.assert_allclose(dear, [-0.5, -0.5, 1, 0], atol=1e-6)
    scale = 0.1 / unit
    np.testing.assert_allclose(above[:3], np.log((expected - 0.2 / unit) / scale + 1e-3), rtol=1e-4)
    assert list(fits) == [1, 1, 1, 0]
    gap = np.array([*(0.5 / unit - expected), OVERLOAD]) / scale  # all fit but the last
    np.testing.assert_allclose(behind, np.log(gap + 1e-3), rtol=1e-4, atol=1e-4)
    # With more to do than all can take none fits, and the least occupied is best.
    machine[..., :3, clock] += 10
    crowded = derived_channels(machine, incumbent, slice_, mask, domains)[0, 0].T.numpy()
    assert not crowded[7].any()
    np.testing.assert_array_equal(crowded[8], crowded[5])


def test_derived_channels_of_nothing_known_are_finite():
    seen = {key: torch.zeros_like(value) for key, value in states().items()}
    seen["position_mask"] += 1
    channels = derived_channels(
        seen["machine_view"],
        seen["incumbent_view"],
        seen["slice_view"],
        seen["position_mask"],
        torch.full((6,), -1),
    )
    assert bool(torch.isfinite(channels).all())


@pytest.mark.parametrize(
    ("machine", "workload", "interference"),
    [("skylake-x-8n", "ycsb-a", "memory_stream"), ("milan-nps4", "scans", "cache_thrash")],
)
def test_derived_channels_explain_best_fit(machine, workload, interference):
    env = SpatialSchedulingEnv(machine=machine, workload=workload, interference=interference)
    seen, _ = env.reset(seed=5)
    context = env.context(np.random.default_rng(0))
    tiles = env.machine.tile_of_core[make_baseline("best-fit")(context).cores[env.order]]
    domains = torch.from_numpy(env.machine.domain_of_tile.astype(np.int64))
    agreed = []
    for tile in tiles:
        views = (
            torch.from_numpy(seen[key].reshape(1, 1, env.machine.tiles, H))
            for key in ("machine_view", "incumbent_view")
        )
        slice_ = torch.from_numpy(seen["slice_view"])[None, None]
        mask = torch.from_numpy(seen["position_mask"].reshape(1, 1, -1)).float()
        channels = derived_channels(*views, slice_, mask, domains)[0, 0]
        behind = channels[:, 8].masked_fill(mask[0, 0] == 0, np.inf)
        # Cores that end together differ by rounding.
        agreed.append(float(behind[tile] - behind.min()) < 0.02)
        seen = env.step(tile)[0]
    assert np.mean(agreed) > 0.98


def test_domains_come_with_the_weights():
    machine = load_machine("milan-nps4")
    one, other = (StateEncoder((8, 8), H, channels=4, width=3, derived=True) for _ in range(2))
    one.set_domains(machine.domain_of_tile)
    other.load_state_dict(one.state_dict())
    assert other.domains.tolist() == machine.domain_of_tile.tolist()
    assert len(set(other.domains.tolist())) == 17
