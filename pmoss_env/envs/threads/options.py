"""The arguments of the thread environment besides those of the program."""

from __future__ import annotations

from dataclasses import dataclass

from pmoss_env.checks import check_name, check_type, is_number
from pmoss_env.envs.base import ON_ILLEGAL, RENDER_MODES
from pmoss_env.envs.threads.decisions import THRESHOLD
from pmoss_env.envs.threads.reward import FORMS, UTILISATIONS
from pmoss_env.errors import DescriptionError


@dataclass(frozen=True)
class Options:
    """Arguments of ``ThreadSchedulingEnv``, which describes them.

    Raises:
        UnknownNameError: a name in no catalogue.
        DescriptionError: any other invalid value.
    """

    threshold: float = THRESHOLD
    stay: bool = True
    reward: str = "normalised"
    utilisation: str = "cpu"
    epoch_seconds: float = 1.0
    on_illegal: str = "remap"
    render_mode: str | None = None

    def __post_init__(self) -> None:
        check_type("stay", bool, self.stay)
        check_name("reward", self.reward, FORMS)
        check_name("utilisation", self.utilisation, UTILISATIONS)
        check_name("on_illegal", self.on_illegal, ON_ILLEGAL)
        if self.render_mode is not None:
            check_name("render_mode", self.render_mode, RENDER_MODES)
        if not is_number(self.threshold) or not 0.0 < self.threshold <= 1.0:
            raise DescriptionError(f"threshold = {self.threshold!r}: must be above 0 and at most 1")
        if not is_number(self.epoch_seconds) or not 0.0 < self.epoch_seconds < 3600.0:
            raise DescriptionError(
                f"epoch_seconds = {self.epoch_seconds!r}: must be above 0 and below 3600"
            )
