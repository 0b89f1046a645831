"""The players of a recipe's episodes, and the random stream of each episode."""

from __future__ import annotations

import importlib
import zlib
from dataclasses import replace

import numpy as np

from pmoss_datasets.domain import find_domain
from pmoss_datasets.interfaces import Player
from pmoss_datasets.policies import Policy
from pmoss_datasets.recipes import Behaviour, Recipe
from pmoss_env.entry_points import add_working_folder
from pmoss_env.errors import DescriptionError, PmossError

# Independent streams of chance under one recipe seed.
PLAY, REFERENCE = 0, 1
# The stream of fixed schedules, under no recipe's seed.
_FIXED = 2


class RecipeWork:
    """The tasks of one recipe by number: first its episodes, then its reference episodes."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        # Made by the first task: what it raises is then that task's error, wherever it is done.
        self._player: Player | None = None

    def __call__(self, number: int) -> bytes:
        """The record of one task: an episode as ``Played.to_bytes``, or scores as float64."""
        if self._player is None:
            self._player = find_domain(self._recipe.domain).player(self._recipe)
        if number < self._recipe.episodes:
            return self._player.episode(number).to_bytes()
        scores = self._player.reference(number - self._recipe.episodes)
        return np.array(scores, dtype="<f8").tobytes()

    def close(self) -> None:
        """Releases the environment."""
        if self._player is not None:
            self._player.close()


def imported_policy(behaviour: Behaviour) -> Policy:
    """The policy that a behaviour's "module:function" gives.

    Raises:
        DescriptionError: it cannot be imported or called, or gives no policy.
        PmossError: what the function raises of them.
    """
    module, _, function = behaviour.policy.partition(":")
    add_working_folder()
    try:
        make = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise DescriptionError(f"policy {behaviour.policy!r}: cannot be imported: {error}") from (
            error
        )
    try:
        policy = make(*behaviour.arguments)
    except PmossError:
        raise
    except Exception as error:  # someone else's function may raise anything
        raise DescriptionError(
            f"policy {behaviour.policy!r}: cannot be made of its arguments (--argument) "
            f"{list(behaviour.arguments)}: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(policy, Policy):
        raise DescriptionError(
            f"policy {behaviour.policy!r}: gives {policy!r}, which has no reset() and act()"
        )
    return policy


def chance(seed: int, stream: int, number: int) -> tuple[int, np.random.Generator]:
    """The environment's seed and the policy's generator of one episode of a recipe."""
    root = np.random.SeedSequence([seed, stream, number])
    env, policy = root.spawn(2)
    # Seeds below 2^53 survive JSON readers that know only doubles.
    return int(env.generate_state(1, np.uint64)[0] >> np.uint64(11)), np.random.default_rng(policy)


def chance_of_fixed(behaviour: Behaviour, number: int) -> np.random.Generator:
    """The generator that draws a fixed schedule of a behaviour: of policy and number alone."""
    policy = zlib.crc32(replace(behaviour, fixed=0, weight=1.0).name.encode())
    return np.random.default_rng([_FIXED, policy, number])
