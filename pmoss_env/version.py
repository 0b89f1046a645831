"""The version of the package."""

__version__ = "0.2.0"

#: Versions whose stored results, datasets and interrupted commands this version continues. Ids have
#: the same bits in all of them: a change of bits gets a new id.
CONTINUED = frozenset({"0.1.0", __version__})
