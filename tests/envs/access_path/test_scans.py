import numpy as np
import pytest

from pmoss_env.envs.access_path import ScanDistribution, Scans, SimulatedScans
from pmoss_env.envs.access_path.scans import WORKER_GB_PER_S
from pmoss_env.errors import DescriptionError, UnsupportedError


@pytest.fixture(scope="module")
def simulated():
    return SimulatedScans()


def test_what_is_drawn_keeps_to_the_distribution():
    distribution = ScanDistribution(least_kib=64, doublings=5, result_share=0.2)
    scans = distribution.draw(np.random.default_rng(0), 2000, 8)
    assert scans.bytes.min() >= 64 * 1024
    assert scans.bytes.max() <= 64 * 1024 * 2**5
    assert (scans.results <= 0.2 * scans.rows).all()
    assert (scans.rows == np.floor(scans.rows)).all()
    asked = scans.cpu_workers * scans.cpu_worker_gb_per_s
    assert asked.max() <= 12.0
    assert (asked == 0).mean() > 0.2
    assert scans.cpu_worker_gb_per_s.max() <= WORKER_GB_PER_S
    assert set(scans.execution_node) == set(scans.storage_node) == set(range(8))


def test_rows_decide_alone_and_threads_change_nothing(simulated):
    scans = ScanDistribution(doublings=3).draw(np.random.default_rng(1), 12, 8)
    seeds = np.arange(12)
    together = simulated.run(scans, 1, seeds, threads=2).run_time_us
    alone = [simulated.run(scans[i : i + 1], 1, seeds[i]).run_time_us[0] for i in range(12)]
    assert together.tolist() == alone


def test_traffic_is_read_before_the_scan_and_is_the_same_on_every_path(simulated):
    scans = ScanDistribution(doublings=2).draw(np.random.default_rng(2), 12, 8)
    read = simulated.read_traffic(scans, np.arange(12))
    for path in (0, 1, 2):
        times = simulated.run(scans, path, np.arange(12))
        assert np.array_equal(times.link_traffic, read.link_traffic)
        assert np.array_equal(times.engine_traffic, read.engine_traffic)
    features = simulated.features(scans, read)
    assert features.shape == (12, 5)
    assert np.array_equal(features[:, 0], scans.bytes / 1e6)
    assert set(features[:, 1]) <= {110.0, 180.0, 250.0, 300.0}


def test_links_have_payload_and_overhead_and_no_diagonal(simulated):
    names = simulated.link_names
    assert len(names) == 2 * (8 + 8) + 4 * 3
    assert "socket0-socket2" not in names
    traffic = simulated.links(Scans.of(4, 1e6), 0)[0]
    loaded = {name for name, (payload, _) in zip(names, traffic, strict=True) if payload > 0}
    assert loaded == {"socket4-hub2", "hub2-hub0", "hub0-socket0"}


def test_impossible_things_are_refused(simulated):
    with pytest.raises(UnsupportedError, match="copy engines"):
        SimulatedScans("milan-nps4")
    with pytest.raises(DescriptionError, match="unknown"):
        SimulatedScans(speed=1.0)
    with pytest.raises(DescriptionError, match="engine_line_ns"):
        SimulatedScans(engine_line_ns=0.0)
    with pytest.raises(DescriptionError, match="node"):
        simulated.run(Scans.of(9, 1e6), 0, 0)
    with pytest.raises(DescriptionError, match="results"):
        simulated.run(Scans.of(0, 10, 11), 0, 0)
    with pytest.raises(DescriptionError, match="path"):
        simulated.run(Scans.of(0, 10), 3, 0)
    with pytest.raises(DescriptionError, match="doublings"):
        ScanDistribution(doublings=-1)
