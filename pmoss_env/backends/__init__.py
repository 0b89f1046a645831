"""Backends measure schedules: the models and the real machine behind one protocol."""

from pmoss_env.backends.base import Backend, IncrementalBackend, Subject, incremental
from pmoss_env.backends.catalog import (
    backend_class,
    backend_names,
    backend_options,
    make_backend,
)

__all__ = [
    "Backend",
    "IncrementalBackend",
    "Subject",
    "backend_class",
    "backend_names",
    "backend_options",
    "incremental",
    "make_backend",
]
