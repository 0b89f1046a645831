"""Which index and workload a command runs when it is told of one only."""

from __future__ import annotations

#: What each kind of index gets unless told otherwise; small enough to load in seconds.
USUAL_WORKLOADS = {"btree": "ycsb-a", "rtree": "rtree-ranges-5m"}


def index_and_workload(index: str | None, workload: str | None) -> tuple[str, str]:
    """Both, from either: the index that the workload is for, the usual workload of the index.

    Raises:
        UnknownNameError: no such index or workload.
    """
    from pmoss_env.errors import UnknownNameError
    from pmoss_env.workloads import load_workload

    if index is not None and index not in USUAL_WORKLOADS:
        raise UnknownNameError("index", index, list(USUAL_WORKLOADS))
    if workload is None:
        workload = USUAL_WORKLOADS[index or "btree"]
    return index or load_workload(workload).index, workload
