"""Policies play in an environment, episode by episode; rows keep the measurements.

Where the domain offers it a rollout can be undone: what ran before is put back, measured, and
compared with what it was. On this host what ran before is measured once more in any case: a
comparison is of one schedule, another, and the first again, on the same records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, get_args

from pmoss_datasets.domain import Domain, check_offer, find_domain
from pmoss_datasets.evaluation import episode_seed
from pmoss_datasets.evaluation.results import ASKED
from pmoss_datasets.fairness import check_policy, is_ours
from pmoss_datasets.policies import Policy, SchedulePolicy
from pmoss_datasets.schema import FIRST_DOMAIN
from pmoss_env import __version__
from pmoss_env.backends.frames import pack_schedule
from pmoss_env.errors import DatasetError, DescriptionError, UnknownNameError
from pmoss_env.measuring import what_runs
from pmoss_env.result_files import ResultFile
from pmoss_env.types import Schedule

#: When the incumbent is put back: where it was faster than what the policy made, or in any case.
Undo = Literal["never", "worse", "always"]


def roll_out(
    env_kwargs: Mapping[str, Any],
    policies: Mapping[str, Policy],
    *,
    episodes: int,
    seed: int,
    incumbent: Schedule | None = None,
    undo: Undo = "never",
    out: Path | None = None,
    on_row: Callable[[dict[str, Any]], None] | None = None,
    on_round: Callable[[dict[str, Any]], None] | None = None,
    domain: str = FIRST_DOMAIN,
    made_of: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Plays ``episodes`` episodes with every policy; each meets the same incumbents and instances.

    Args:
        incumbent: what runs at the start of each; drawn from the seed if None.
        undo: when the incumbent is put back at the end of an episode.
        out: file of rows; what it holds already is not played again.
        on_row: called with each row, also with those of the file.
        on_round: called with every sweeping round of the hardware backend, while it measures.
        made_of: plain JSON that changes where a policy does, such as stamps of files; ``out``
            keeps it. Without it only rules and searches of the project go on with an ``out``.

    Returns:
        Rows of plain JSON. They hold throughputs in Mq/s, latencies in us, the slices that moved,
        and the seconds that the policy took. They also say how often it asked before it decided:
        ``measurements``, ``evaluations``. ``restored`` says what undoing found, None without.
        On this host ``comparison`` has records, ratio and interval, see measuring.Comparison.

    Raises:
        DatasetError: ``out`` holds results of another command, or of a policy that may be another.
        DescriptionError: no episode is asked for.
        UnsupportedError: undoing, or an incumbent, of a domain that does not offer it.
        CheckpointError: an agent was fitted for another task.
        BackendError: a measurement failed; finished rows are in the file.
    """
    if undo not in get_args(Undo):
        raise UnknownNameError("undo", undo, get_args(Undo))
    if episodes < 1:
        raise DescriptionError(f"episodes = {episodes}: must be at least 1")
    chosen = find_domain(domain)
    if undo != "never":
        check_offer(chosen, "undoing", f"--undo {undo}")
    if incumbent is not None:
        check_offer(chosen, "schedules", "an incumbent")
    header = {
        "kind": "rollout",
        "version": __version__,
        "env": dict(env_kwargs),
        "seed": seed,
        "incumbent": None if incumbent is None else pack_schedule(incumbent),
        "undo": undo,
        # The first domain's files say nothing of it: they are older than the others.
        **({} if domain == FIRST_DOMAIN else {"domain": domain}),
        **(made_of or {}),
        **what_runs(env_kwargs.get("index", ""), on_host=chosen.measures_host(env_kwargs)),
    }
    rows: list[dict[str, Any]] = []
    file = ResultFile(out, header, key=("policy", "episode"))
    stage: _Stage | None = None
    try:
        for name, policy in policies.items():
            is_rule = isinstance(policy, SchedulePolicy) and is_ours(policy)
            if not (made_of or is_rule) and file.get(name, 0) is not None:
                raise DatasetError(
                    f"{out}: has rows of {name}, which may be another policy by now: say by "
                    "made_of what made it, choose another file, or remove this one"
                )
        for episode in range(episodes):
            for name, policy in policies.items():
                row = file.get(name, episode)
                if row is None:
                    if stage is None:
                        stage = _Stage(chosen, env_kwargs, policies, on_round)
                    row = {"policy": name, "episode": episode}
                    row |= stage.play(policy, episode_seed(seed, episode), incumbent, undo)
                    file.append(row)
                rows.append(row)
                if on_row:
                    on_row(row)
    finally:
        file.close()
        if stage is not None:
            stage.close()
    return rows


class _Stage:
    """An environment, and what policies search on there."""

    def __init__(
        self,
        domain: Domain,
        env_kwargs: Mapping[str, Any],
        policies: Mapping[str, Policy],
        on_round: Callable[[dict[str, Any]], None] | None,
    ) -> None:
        self._domain = domain
        self._env = domain.make_env(env_kwargs)
        domain.watch(self._env, on_round)
        self._companion = domain.companion(self._env)
        for policy in policies.values():
            check_policy(policy, self._env)

    def play(
        self, policy: Policy, seed: int, incumbent: Schedule | None, undo: Undo
    ) -> dict[str, Any]:
        domain, env = self._domain, self._env
        # A search without a budget is one of the project.
        budget = getattr(policy, "search_evaluations", None)
        searches = budget is not None or bool(getattr(policy, "searches", False))
        options = {} if incumbent is None else {"incumbent": incumbent}
        played = domain.play(env, policy, seed, self._companion if searches else None, **options)
        row = domain.row_of(env, played)
        row |= {name: count for name in ASKED if (count := getattr(played, name)) is not None}
        restored = self._restored(row) if domain.measures_twice(env) else None
        before, after = domain.ends_of(row)
        worse = before is not None and after < before
        if undo == "never" or (undo == "worse" and not worse):
            return {**row, "restored": None}
        return {**row, "restored": self._restored(row) if restored is None else restored}

    def _restored(self, row: dict[str, Any]) -> dict[str, Any]:
        """Puts back what ran before; the row gets the comparison, where there is one."""
        restored = asdict(self._domain.restore(self._env))
        if (compared := restored.pop("comparison")) is not None:
            row["comparison"] = compared
        return restored

    def close(self) -> None:
        self._env.close()
        if self._companion is not None:
            self._companion.close()
