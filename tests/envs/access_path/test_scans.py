from dataclasses import replace

import numpy as np
import pytest

from pmoss_env.envs.access_path import ScanDistribution, Scans, SimulatedScans
from pmoss_env.errors import DescriptionError, UnsupportedError


@pytest.fixture(scope="module")
def simulated():
    return SimulatedScans()


def test_rows_decide_alone_and_threads_change_nothing(simulated):
    scans = ScanDistribution(doublings=3).draw(np.random.default_rng(1), 12, 8)
    seeds = np.arange(12)
    together = simulated.run(scans, 1, seeds, threads=2).run_time_us
    alone = [simulated.run(scans[i : i + 1], 1, seeds[i]).run_time_us[0] for i in range(12)]
    assert together.tolist() == alone


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
    given = simulated.machine.offload
    free = replace(given["engine_line_ns"], value=0.0)
    with pytest.raises(DescriptionError, match="engine_line_ns"):
        SimulatedScans(replace(simulated.machine, offload={**given, "engine_line_ns": free}))
    with pytest.raises(DescriptionError, match="node"):
        simulated.run(Scans.of(9, 1e6), 0, 0)
    with pytest.raises(DescriptionError, match="results"):
        simulated.run(Scans.of(0, 10, 11), 0, 0)
    with pytest.raises(DescriptionError, match="path"):
        simulated.run(Scans.of(0, 10), 3, 0)
    with pytest.raises(DescriptionError, match="doublings"):
        ScanDistribution(doublings=-1)
