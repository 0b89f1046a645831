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


def test_work_that_all_workers_share_goes_where_time_is_left():
    cores = np.array([3, 3, 3, 3, 5, 5, 5, 5], dtype=np.int32)
    policy = Alike({"worker_other_share": [0.5, 0.1], "routers": "workers"})
    np.testing.assert_allclose(policy.beside(), [2.4, 2.4])
    assert policy.plan(cores) == []
