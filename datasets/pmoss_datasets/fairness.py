"""The view of a policy: neither the hidden model of its episode nor a way to it.

A policy sees observations, masks and, where it plans, a ``Context``. This module makes the rest of
what it gets: facts of the environment in place of the environment, and a source of chance that does
not lead back to the episode's seed.

Classes of the project that read the running environment by their purpose, such as oracles, are
listed by ``@reads_environment``. In one process Python keeps nothing from code that looks for it.
Anybody can compute the seeds of ``evaluate()``. ``pmoss study submit`` plays a policy in a process
of its own, on secret seeds.
"""

from __future__ import annotations

import hashlib
import hmac
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from pmoss_env.context import Context
from pmoss_env.errors import UnsupportedError

#: Separates these streams from every other use of a seed.
PUBLIC_KEY = b"pmoss policy stream"
#: What a policy may know of an environment before and while it plays.
FACTS = (
    *("action_space", "observation_space", "metadata", "spec", "render_mode"),
    *("machine", "slices", "arguments"),
    *("actions_kind", "counters_kind", "observation_mode", "order_kind"),
)
#: Packages whose classes may read the running environment.
_OURS = ("pmoss_datasets", "pmoss_agents", "pmoss_benchmarks")
_READERS: set[type] = set()

T = TypeVar("T", bound=type)


def policy_stream(seed: int, stream: int = 2, key: bytes = PUBLIC_KEY) -> np.random.Generator:
    """A policy's source of chance in an episode: its state does not reveal the episode's seed.

    Args:
        stream: another one draws anew on the same episode.
        key: of the keyed hash (HMAC-SHA-256). With the public one a seed can still be guessed.
    """
    digest = hmac.digest(key, f"{seed}/{stream}".encode(), hashlib.sha256)
    return np.random.default_rng(int.from_bytes(digest, "big"))


def reads_environment(cls: T) -> T:
    """Lists, as a decorator, a class whose instances receive the environment that is played.

    A class that derives from it is not listed.

    Raises:
        UnsupportedError: the class is of another package.
    """
    if cls.__module__.partition(".")[0] not in _OURS:
        raise UnsupportedError(
            f"{cls.__qualname__}: only policies of this project may read the running environment; "
            "others see its facts, observations and context"
        )
    _READERS.add(cls)
    return cls


class EnvironmentFacts:
    """The facts of an environment that a policy may know: those of FACTS that it has.

    It holds no reference to the environment, so neither its session nor its instance is to be had.
    """

    def __init__(self, env: Any) -> None:
        bare = getattr(env, "unwrapped", env)
        for name in FACTS:
            if hasattr(bare, name):
                setattr(self, name, getattr(bare, name))

    @property
    def unwrapped(self) -> EnvironmentFacts:
        """Itself, as environments have it."""
        return self


class EpisodeFacts(EnvironmentFacts):
    """The facts of an environment whose episode runs, and the context of what runs now.

    Attributes:
        context: ``context(rng)`` gives the Context of the last epoch, as counters show it;
            UnsupportedError once the environment plays another episode.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        bare = getattr(env, "unwrapped", env)
        # Each reset with a seed makes another one.
        episode = bare.np_random

        def context(rng: np.random.Generator) -> Context:
            if bare.np_random is not episode:
                raise UnsupportedError(
                    "the episode of this context has ended: ask for one in each begin()"
                )
            shown: Context = bare.context(rng)
            return shown

        self.context: Callable[[np.random.Generator], Context] = context


def is_ours(policy: Any) -> bool:
    """Whether a policy is of a class of this project, and follows no function of others."""
    return _is_of_project(type(policy)) and getattr(policy, "is_own", True)


def reads(policy: Any) -> bool:
    """Whether a policy's class is listed by reads_environment()."""
    return type(policy) in _READERS and _is_of_project(type(policy))


def _is_of_project(cls: type) -> bool:
    # A class may say that it is of any module; only the real one is found there.
    real = getattr(sys.modules.get(cls.__module__), cls.__name__, None)
    return real is cls and cls.__module__.partition(".")[0] in _OURS


def shown_environment(policy: Any, env: Any) -> Any:
    """The environment where a policy is listed by reads_environment(), else its facts."""
    return env if reads(policy) else EnvironmentFacts(env)


def check_policy(policy: Any, env: Any) -> None:
    """Asks a policy that has ``check_env`` whether it can play in an environment.

    Raises:
        PmossError: what the policy raises, such as CheckpointError.
    """
    if (check_env := getattr(policy, "check_env", None)) is not None:
        check_env(shown_environment(policy, env))
