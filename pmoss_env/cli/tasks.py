"""The index and the workload of a command that names only one of them."""

from __future__ import annotations


def index_and_workload(index: str | None, workload: str | None) -> tuple[str, str]:
    """Both, from either: the index of the workload, or the usual workload of the index.

    Raises:
        UnknownNameError: no such index or workload.
        PluginError: an index that is no shared library.
    """
    from pmoss_env.cli.pairs import named_index
    from pmoss_env.indexes import DEFAULT, index_kind
    from pmoss_env.workloads import load_workload

    index = named_index(index)
    kind = index_kind(index or DEFAULT)
    if workload is None:
        workload = kind.usual_workload
    return index or load_workload(workload).index, workload
