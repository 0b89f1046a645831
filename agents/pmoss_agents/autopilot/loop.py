"""The loop of `pmoss run autopilot`: an agent proposes, trials decide, and every epoch is kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pmoss_agents.autopilot.backoff import Backoff, worker_speeds
from pmoss_agents.autopilot.trials import OutOfMemory, Trial, TriedIndex
from pmoss_datasets.continual.domain import CONTINUAL
from pmoss_datasets.fairness import check_policy, policy_stream
from pmoss_datasets.stepwise.playing import may_read, start
from pmoss_env import __version__
from pmoss_env.backends.frames import pack_snapshot
from pmoss_env.envs.continual import ContinualSchedulingEnv
from pmoss_env.errors import DatasetError, IllegalActionError, PmossError, PolicyError
from pmoss_env.result_files import ResultFile
from pmoss_env.types import CoTenant, HardwareSnapshot

#: What a file of epochs calls itself.
FORMAT = "autopilot-epochs"
#: An agent that raises so often in a row is asked no more.
_PATIENCE = 3
#: What may have become of a proposal; "trying": its trial goes on in the next epoch.
VERDICTS = ("kept", "reverted", "trying", "stayed")


@dataclass
class Decision:
    """The actions and the reward of one epoch.

    Attributes:
        actions: slice and tile of every step, the one that began the epoch among them.
        illegal: how many of them were forbidden.
        reward: of the epoch.
    """

    actions: list[tuple[int, int]] = field(default_factory=list)
    illegal: int = 0
    reward: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """The result of one epoch.

    Attributes:
        epoch: its number, from 1.
        seconds: since the loop began.
        throughput: Mq/s over the epoch, the trial included.
        trial: that ended in the epoch, of what the agent proposed then or before; None if none did.
        cores: (slices,) that serve now.
        pending: slices whose data are under way.
        snapshot: of the rounds after the trial.
        decision: the moves, and what the epoch paid.
        speeds: (workers,) the share of its time that each worker core had before the moves.
        expected: share by which the agent expected a gain; None where it did not say.
        co_tenants: that ran in the epoch: the truth, which no agent sees.
        trouble: what went wrong, in words; empty otherwise.
        reloaded: why the index was loaded anew before the epoch; empty if it was not.
        trying: a trial goes on in the next epoch.
        records: in the index at the end of the epoch.
    """

    epoch: int
    seconds: float
    throughput: float
    trial: Trial | None
    cores: tuple[int, ...]
    pending: int
    snapshot: HardwareSnapshot
    decision: Decision
    speeds: tuple[float, ...]
    expected: float | None
    co_tenants: tuple[CoTenant, ...]
    trouble: str
    reloaded: str = ""
    trying: bool = False
    records: int = 0

    @property
    def verdict(self) -> str:
        """What became of the proposal, in one word."""
        if self.trial is None:
            return "trying" if self.trying else "stayed"
        return "kept" if self.trial.kept else "reverted"

    @property
    def measured(self) -> float | None:
        """Share by which the new schedule served more in the trial; None without one."""
        if self.trial is None or not sum(self.trial.before):
            return None
        return sum(self.trial.after) / sum(self.trial.before) - 1.0

    def row(self, session: int) -> dict[str, Any]:
        """The epoch as plain JSON: what a file of epochs holds.

        Args:
            session: which loop of the file it belongs to.
        """
        plain = {**vars(self), "session": session, "snapshot": pack_snapshot(self.snapshot)}
        plain |= asdict(plain.pop("decision"))
        plain["trial"] = None if self.trial is None else asdict(self.trial)
        plain["co_tenants"] = [asdict(tenant) for tenant in self.co_tenants]
        return plain


def running_env(arguments: Mapping[str, Any], seed: int) -> ContinualSchedulingEnv:
    """The environment on this host, whose index tries every change.

    Args:
        arguments: of ContinualSchedulingEnv, less the backend.
        seed: of the order within trials.

    Raises:
        PmossError: what the environment refuses.
    """
    env = ContinualSchedulingEnv(**{"machine": "host", **arguments, "backend": "hardware"})
    seconds = float(env.arguments.epoch_seconds)
    env.session.live = TriedIndex(env.session.backend, seconds, seed=seed)  # type: ignore[arg-type]
    return env


def fly(env: ContinualSchedulingEnv, policy: Any, seed: int = 0) -> Iterator[Outcome]:
    """Runs the loop, one epoch per item, until the epochs are over or the reader stops.

    Between epochs an index that has grown too large is loaded anew. Where memory does not last for
    another epoch, the loop ends, and ``ended`` of the index says so. An agent that raises has moved
    nothing: the last schedule goes on. All threads have ended when the iterator has.

    Args:
        env: of running_env().
        policy: what may move slices, as in the environment.
        seed: of the episode, and of the policy's chance.

    Raises:
        BackendError: a thread of the run has failed.
        PmossError: the policy refuses this host, before the index is loaded if it has check_env().
    """
    session, index = env.session, env.session.live
    assert isinstance(index, TriedIndex)
    try:
        broken = _attempt(check_policy, policy, env)
        observation, info = env.reset(seed=seed)
        rng = np.random.default_rng((seed, 2))
        # Agents of others do not learn the seed: it decides the drift.
        chance = rng if may_read(CONTINUAL, policy) else policy_stream(seed)
        broken = broken or _attempt(start, CONTINUAL, policy, env, chance)
        began, failures, backoff = time.monotonic(), _PATIENCE if broken else 0, Backoff()
        while session.running:
            reloaded = ""
            if session.epoch:
                try:
                    reloaded = index.keep_within()
                except OutOfMemory as error:
                    index.ended = str(error)
                    return
            speeds = worker_speeds(env.context(rng))
            resting = index.trying or failures >= _PATIENCE
            resting = resting or not backoff.asks(speeds, session.throughput)
            decision, asked = Decision(), None if resting else policy
            observation, info, trouble = _epoch(env, asked, observation, info, decision)
            failures = failures if resting else failures + 1 if trouble else 0
            trouble, broken = broken or trouble, ""
            if not resting and failures == _PATIENCE:
                trouble += "; it is asked no more"
            if (trial := index.last) is not None:
                backoff.record(trial.kept, speeds, float(np.mean(trial.before)))
            yield Outcome(
                epoch=session.epoch,
                seconds=time.monotonic() - began,
                throughput=session.throughput,
                trial=trial,
                cores=tuple(session.cores_seen.tolist()),
                pending=index.copies,
                snapshot=session.snapshot,
                decision=decision,
                speeds=tuple(speeds.tolist()),
                expected=None if trial is None else getattr(policy, "expected", None),
                co_tenants=session.conditions(session.epoch).co_tenants,
                trouble=trouble,
                reloaded=reloaded,
                trying=index.trying,
                records=index.records,
            )
    finally:
        env.close()


def _attempt(step: Callable[..., object], *arguments: Any) -> str:
    """Lets an agent begin; what it raised, in words."""
    try:
        step(*arguments)
    except (KeyboardInterrupt, PmossError):
        raise  # a typed refusal, too: nothing runs yet that it could end
    except BaseException as error:
        return f"{_in_words(error)}; it is not asked"
    return ""


def _epoch(
    env: ContinualSchedulingEnv,
    policy: Any,
    observation: Any,
    info: dict[str, Any],
    decision: Decision,
) -> tuple[Any, dict[str, Any], str]:
    """Asks for moves until the epoch has run: (observation, info, what went wrong)."""
    session, trouble = env.session, ""
    number = session.epoch
    leave = env.slices, int(np.argmax(env.machine.worker_tiles))
    before = info["illegal_actions"]
    while session.epoch == number:
        action: Any = leave
        try:
            if policy is not None and not trouble:
                action = policy.act(observation, info["action_mask"])
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            trouble = _raised(env, error)
        if not session.running:
            raise PolicyError(
                f"{getattr(policy, 'name', type(policy).__name__)}: closed the environment that it "
                "plays in: the loop is at its end; an agent must leave it open"
            )
        try:
            observation, decision.reward, _, _, info = env.step(action)
            decision.actions.append((int(action[0]), int(action[1])))
        except IllegalActionError as error:
            trouble = _raised(env, error)
    decision.illegal = info["illegal_actions"] - before
    return observation, info, trouble


def _raised(env: ContinualSchedulingEnv, error: BaseException) -> str:
    """Takes the moves of the round back: the last schedule goes on."""
    assert env.session.live is not None
    env.session.live.cores = env.session.cores_seen.copy()
    return f"{_in_words(error)}; nothing moves"


def _in_words(error: BaseException) -> str:
    """What an agent raised, all of it; its text may be of any length, or raise itself."""
    try:
        return f"the agent raised {type(error).__name__}: {error}"
    except Exception:
        return f"the agent raised {type(error).__name__}, which cannot be shown"


class EpochFile:
    """A file that every epoch is appended to: a kill loses none, a full disk stops nothing.

    A file that is there is gone on with, as another session.

    Attributes:
        trouble: why the last epoch was not written; empty if it was.
        lost: epochs that were not written.

    Args:
        path: JSON lines; None: nothing is kept.
        settings: what must agree with a file that is there.

    Raises:
        DatasetError: the file is of other settings, foreign, or in use.
    """

    def __init__(self, path: Path | None, settings: Mapping[str, Any]) -> None:
        header = {"format": FORMAT, "version": __version__, "settings": dict(settings)}
        self._file = ResultFile(path, header, ("session", "epoch"))
        self._session = 1 + max((key[0] for key in self._file.rows), default=0)
        self._file.rows.clear()  # they stay in the file
        self.trouble, self.lost = "", 0

    def append(self, outcome: Outcome) -> None:
        """Keeps an epoch, or says in ``trouble`` why not."""
        try:
            self._file.append(outcome.row(self._session))
            self.trouble = ""
        except (DatasetError, OSError) as error:
            self.lost += 1
            self.trouble = f"{error}; the loop goes on without"
        self._file.rows.clear()

    def close(self) -> None:
        """Brings it to the disk, if there is room."""
        with suppress(OSError, PmossError):
            self._file.close()
