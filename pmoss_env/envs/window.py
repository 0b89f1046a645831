"""``render_mode="human"``: every state of an environment in a window, by pygame."""

from __future__ import annotations

from functools import wraps
from typing import Any

import gymnasium
import numpy as np

from pmoss_env.extras import require


class _Window:
    """A window that opens with its first picture."""

    def __init__(self, title: str, fps: float) -> None:
        self._title, self._fps = title, fps
        self._screen: Any = None

    def show(self, image: np.ndarray[Any, Any]) -> None:
        """Shows an (height, width, 3) uint8 image, for as long as a frame takes."""
        import pygame

        size = image.shape[1::-1]
        if self._screen is None or self._screen.get_size() != size:
            pygame.display.init()
            pygame.display.set_caption(self._title)
            self._screen = pygame.display.set_mode(size)
            self._clock = pygame.time.Clock()
        self._screen.blit(pygame.surfarray.make_surface(image.swapaxes(0, 1)), (0, 0))
        pygame.event.pump()
        pygame.display.flip()
        self._clock.tick(self._fps)

    def close(self) -> None:
        """Closes the window. Safe to repeat."""
        if self._screen is not None:
            import pygame

            self._screen = None
            pygame.display.quit()


def open_window(env: gymnasium.Env[Any, Any]) -> None:
    """Has an environment show its state after each reset and step.

    Environments without a window pay nothing for it: this one's own methods are replaced.

    Raises:
        MissingExtraError: pygame is not installed.
    """
    require("pygame")
    window = _Window(type(env).__name__, float(env.metadata["render_fps"]))
    reset, step, render, close = env.reset, env.step, env.render, env.close

    def show() -> None:
        window.show(render())  # type: ignore[arg-type]

    @wraps(reset)
    def reset_and_show(**arguments: Any) -> Any:
        result = reset(**arguments)
        show()
        return result

    def step_and_show(action: Any) -> Any:
        result = step(action)
        show()
        return result

    def close_all() -> None:
        window.close()
        close()

    vars(env).update(reset=reset_and_show, step=step_and_show, render=show, close=close_all)
