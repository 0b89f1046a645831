"""The version of the package: the one place where it is written."""

__version__ = "0.2.0"

#: Versions whose stored results, datasets and interrupted commands this one goes on with. Ids have
#: the same bits in all of them: what changes bits gets another id.
CONTINUED = frozenset({"0.1.0", __version__})
