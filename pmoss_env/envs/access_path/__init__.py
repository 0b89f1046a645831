"""Access-path selection: a processor's loads, or a copy engine, for each table scan."""

from pmoss_env.envs.access_path.env import AccessPathEnv

__all__ = ["AccessPathEnv"]
