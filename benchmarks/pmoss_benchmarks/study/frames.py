"""The stored rows of a study as a table with a row for each episode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pmoss_benchmarks.study.function import Rows

#: The fields of a row that hold what each policy did, by its name.
_PLAYED = ("played", "rules", "policies")
#: Throughput and score of each episode, of a policy that places no slices.
_SHARED = "shared"
#: What is kept of an episode to play it again, and of a file to find damage.
_DROPPED = ("actions", "row_crc32")


def episode_records(rows: Rows) -> list[dict[str, Any]]:
    """A record for each episode of each policy, or for each row where no episodes are stored.

    A record has the fields of the row, ``policy`` and ``episode``. Lists with a value for each
    episode become single values. A record of a rule lacks what is of the trained agent.
    """
    return [record for row in rows for record in _records(row)]


def _records(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    apart = (*_PLAYED, *_DROPPED, _SHARED)
    fields = {key: value for key, value in row.items() if key not in apart}
    played = {name: one for field in _PLAYED for name, one in row.get(field, {}).items()}
    if _SHARED in row:
        throughput, score = map(list, zip(*row[_SHARED], strict=True))
        played[row["policy"]] = {"throughput": throughput, "score": score}
    if not played:
        yield from _episodes(fields)
    for policy, outcome in played.items():
        if outcome == "last":  # the best checkpoint of a training was its last one
            outcome = played[policy.removesuffix(" (best)")]
        yield from _episodes({**fields, "policy": policy, **_of_episodes(outcome)})


def _of_episodes(outcome: Mapping[str, Any]) -> dict[str, Any]:
    """What a policy did, without means over the episodes of which it has a list."""
    if "scores" in outcome:
        return {"score": outcome["scores"]}
    return {key: value for key, value in outcome.items() if key not in _DROPPED}


def _episodes(fields: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    lists = {key: value for key, value in fields.items() if _is_plain_list(value)}
    lengths = {len(values) for values in lists.values()}
    if "policy" not in fields or len(lengths) != 1:
        yield dict(fields)
        return
    for episode in range(lengths.pop()):
        values = {key: values[episode] for key, values in lists.items()}
        yield {**fields, "episode": episode, **values}


def _is_plain_list(value: Any) -> bool:
    return isinstance(value, list) and not any(isinstance(one, (dict, list)) for one in value)
