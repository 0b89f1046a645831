"""Rules of continual scheduling, on given readings."""

from types import SimpleNamespace

import numpy as np

from pmoss_datasets.continual.rules import Repair


class Alike(Repair):
    """Foretells that every slice takes as long on every worker."""

    def __init__(self, provenance):
        super().__init__()
        self.env = SimpleNamespace(
            machine=SimpleNamespace(workers=np.array([3, 5], dtype=np.int32)),
            arguments=SimpleNamespace(moves_per_epoch=8),
            session=SimpleNamespace(
                snapshot=SimpleNamespace(provenance=provenance, throughput=0.125)
            ),
        )

    def predicted_times(self):
        return np.ones((8, 2))


def test_work_beside_the_slices_is_balanced_with_them():
    cores = np.array([3, 3, 3, 3, 5, 5, 5, 5], dtype=np.int32)
    assert Alike({}).plan(cores) == []
    # Half of the first worker's time, at an eighth of a query per time: as much as four slices.
    policy = Alike({"worker_other_share": [0.5, 0.0]})
    np.testing.assert_allclose(policy.beside(), [4.0, 0.0])
    assert [to for _, to in policy.plan(cores)] == [5, 5]
    assert policy.expected == 8 / 6 - 1.0
    balanced = np.array([3, 3, 5, 5, 5, 5, 5, 5], dtype=np.int32)
    assert policy.plan(balanced) == [] and policy.expected is None


def test_work_that_all_workers_share_goes_where_time_is_left():
    cores = np.array([3, 3, 3, 3, 5, 5, 5, 5], dtype=np.int32)
    policy = Alike({"worker_other_share": [0.5, 0.1], "routers": "workers"})
    np.testing.assert_allclose(policy.beside(), [2.4, 2.4])
    assert policy.plan(cores) == []
