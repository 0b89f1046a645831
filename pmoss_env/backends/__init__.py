"""Backends: the analytic model and the real machine behind one protocol."""

from pmoss_env.backends.base import Backend, IncrementalBackend, backend_names, make_backend

__all__ = ["Backend", "IncrementalBackend", "backend_names", "make_backend"]
