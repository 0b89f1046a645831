"""The same bits from a Ray cluster, here one of this host."""

import pytest

from pmoss_datasets import Recipe, collect
from pmoss_datasets.executors import SERVER
from pmoss_env.errors import BackendError, MissingExtraError, UnknownNameError

TOY = {"machine": "toy", "slices": 8}


@pytest.mark.heavy
def test_a_local_cluster_gives_the_same_bits_and_needs_servers_for_hardware(tmp_path):
    ray = pytest.importorskip("ray")
    recipe = Recipe(env=TOY, episodes=5, seed=5, reference_episodes=2, reference_budget=50)
    local = collect(recipe, tmp_path / "here")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        on_ray = collect(recipe, tmp_path / "there", executor="ray", processes=2)
        assert on_ray.metadata == local.metadata
        real = Recipe(env={"backend": "hardware", "machine": "host"}, episodes=1)
        with pytest.raises(BackendError, match=f"declares the resource '{SERVER}'"):
            collect(real, tmp_path / "real", executor="ray")
        wrong = Recipe(env={"machine": "toi"}, episodes=1, reference_episodes=0)
        with pytest.raises(UnknownNameError, match="toi"):
            collect(wrong, tmp_path / "wrong", executor="ray", processes=1)
    finally:
        ray.shutdown()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "there"]


def test_without_ray_the_extra_is_named(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "ray", None)
    recipe = Recipe(env=TOY, episodes=1, reference_episodes=0)
    with pytest.raises(MissingExtraError, match=r"'\.\[ray\]'"):
        collect(recipe, tmp_path / "dataset", executor="ray")
