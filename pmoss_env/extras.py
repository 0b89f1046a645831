"""Checks for optional packages before long work begins."""

from __future__ import annotations

from importlib.util import find_spec

from pmoss_env.errors import MissingExtraError

#: The package and the extra of each module.
_EXTRAS = {
    "d3rlpy": ("d3rlpy", "d3rlpy"),
    "h5py": ("h5py", "datasets"),
    "huggingface_hub": ("huggingface_hub", "hub"),
    "jinja2": ("Jinja2", "report"),
    "matplotlib": ("matplotlib", "report"),
    "minari": ("minari", "minari"),
    "msgspec": ("msgspec", "datasets"),
    "optuna": ("Optuna", "tuning"),
    "pandas": ("pandas", "report"),
    "pyarrow": ("PyArrow", "hub"),
    "ray": ("ray", "ray"),
    "rich": ("rich", "cli"),
    "safetensors": ("safetensors", "agents"),
    "sb3_contrib": ("sb3-contrib", "online"),
    "scipy": ("scipy", "datasets"),
    "sklearn": ("scikit-learn", "agents"),
    "stable_baselines3": ("stable-baselines3", "online"),
    "submitit": ("submitit", "slurm"),
    "tensorboardX": ("tensorboardX", "tensorboard"),
    "torch": ("torch", "agents"),
    "typer": ("typer", "cli"),
    "wandb": ("wandb", "wandb"),
}


def require(*modules: str) -> None:
    """Checks that optional modules can be imported, without importing them.

    Args:
        *modules: e.g. "h5py" or "matplotlib".
    """
    for module in modules:
        if find_spec(module) is None:
            raise MissingExtraError(*_EXTRAS[module])
