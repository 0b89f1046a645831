"""Commands that have a new name. Version 0.3 forgets the old ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pmoss_env.errors import UnsupportedError

#: Benchmarks that are studies of the same name now.
_STUDIES = (
    *("ablation", "access-path", "budget", "continual"),
    *("counter-changes", "datasets", "fidelity", "headroom"),
    *("paper", "performance", "references", "threads"),
    *("transfer", "validation"),
)
#: New words of a command, by the old ones.
RENAMED: Mapping[str, str] = {
    "machines": "list machines",
    "machines import": "data import-machine",
    "machines show": "list machines",
    "workloads": "list workloads",
    "envs": "list environments",
    "agents list": "list agents",
    "agents show": "list agents",
    "agents export": "data export --agent",
    "export": "data export --agent",
    "datasets list": "list datasets",
    "datasets show": "list datasets",
    "datasets build": "data build",
    "datasets convert": "data convert",
    "datasets export": "data export",
    "datasets verify": "data verify",
    "collect": "data collect",
    "import-original": "data import-original",
    "access-path calibrate": "study run performance",
    "rollout": "run rollout",
    "autopilot": "run autopilot",
    "threads": "run threads",
    "load": "run load",
    "check-index": "index check",
    "record": "index record",
    "validate": "study replay",
    "submit": "study submit",
    "leaderboard commit": "dev round",
    "leaderboard reveal": "dev round --reveal",
    "leaderboard play": "dev play",
    "leaderboard check": "study leaderboard --check",
    "leaderboard show": "study leaderboard",
    "report": "dev report",
    **{f"benchmark {name}": f"study run {name}" for name in _STUDIES},
    "benchmark imitation": "study run authors",
    "benchmark offline": "study run core",
    "benchmark pretrained": "dev pretrained",
}


def check_renamed(words: Sequence[str]) -> None:
    """Raises UnsupportedError with the new name of a command."""
    for count in (2, 1):
        old = " ".join(words[:count])
        if new := RENAMED.get(old):
            help_of = new.partition(" --")[0]
            raise UnsupportedError(
                f"`pmoss {old}` is now `pmoss {new}`; see pmoss {help_of} --help"
            )


def gone(option: str) -> Callable[[list[str] | None], None]:
    """A callback that answers an option of before with the argument that it is now.

    Args:
        option: such as "--agent".
    """

    def check(words: list[str] | None) -> None:
        if words:
            raise UnsupportedError(f"{option} {words[0]}: policies are arguments now: {words[0]}")

    return check
