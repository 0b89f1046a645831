"""Gymnasium environments for placement: which core serves which part of a main-memory index."""

# The version comes first: the backends read it. Importing the package registers the ids.
from pmoss_env.version import __version__ as __version__  # isort: skip

from pmoss_env import _native
from pmoss_env.errors import ForkedError
from pmoss_env.indexes import get_include as get_include
from pmoss_env.platforms import refuse_absent_names
from pmoss_env.registration import register_environments

_native.ForkedError = ForkedError
refuse_absent_names()
register_environments()
