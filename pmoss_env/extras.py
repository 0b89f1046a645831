"""Checks for optional packages before long work begins."""

from __future__ import annotations

from importlib.util import find_spec

from pmoss_env.errors import MissingExtraError

#: The package and the extra of each module.
_EXTRAS = {
    "d3rlpy": ("d3rlpy", "d3rlpy"),
    "h5py": ("h5py", "datasets"),
    "jinja2": ("Jinja2", "report"),
    "matplotlib": ("matplotlib", "report"),
    "minari": ("minari", "minari"),
    "msgspec": ("msgspec", "datasets"),
    "pandas": ("pandas", "report"),
    "ray": ("ray", "ray"),
    "rich": ("rich", "cli"),
    "safetensors": ("safetensors", "agents"),
    "sb3_contrib": ("sb3-contrib", "online"),
    "scipy": ("scipy", "agents"),
    "sklearn": ("scikit-learn", "agents"),
    "stable_baselines3": ("stable-baselines3", "online"),
    "torch": ("torch", "agents"),
    "typer": ("typer", "cli"),
}


def require(*modules: str) -> None:
    """Checks that optional modules can be imported, without importing them.

    Args:
        *modules: e.g. "h5py" or "matplotlib".
    """
    for module in modules:
        if find_spec(module) is None:
            raise MissingExtraError(*_EXTRAS[module])
