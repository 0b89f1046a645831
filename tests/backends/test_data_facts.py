"""What a snapshot says about data: slice by slice, as the kernel answered."""

from typing import Any

import numpy as np

from pmoss_env.backends.data_facts import data_facts, misplaced

RAW: dict[str, Any] = {
    "slice_pages": np.array([512, 512]),
    "slice_pages_home": np.array([512, 128]),
    "worker_pages": np.array([4, 4]),
    "worker_pages_home": np.array([4, 2]),
    "slice_causes": ["", "384 of 512 pages lie elsewhere: the node is full"],
    "in_place": False,
    "node_pages": {0: 640, 1: 384},
    "placing_seconds": 0.5,
    "migration": {"slices": 1, "slices_failed": 1},
}


def test_a_slice_that_is_not_in_place_is_named_with_its_cause() -> None:
    facts = data_facts(RAW, "copy", "lazy", "")
    assert facts["not_in_place"] == {"1": RAW["slice_causes"][1]}
    assert misplaced({"data": facts}) == 1
    assert facts["in_place"] is False and facts["home_share"] == 640 / 1024
    assert facts["queues_home_share"] == 6 / 8
    assert facts["pages_by_node"] == {"0": 640, "1": 384}
    assert facts["moved"] == RAW["migration"]
