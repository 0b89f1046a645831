"""The process that Valgrind observes: it serves queries with a user-defined library.

It is run by its path and imports as little as possible: Valgrind slows down all of it.
"""

import sys
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader


def _main(native: str, library: str, slices: str, folder: str, parent: str, counted: str) -> None:
    loader = ExtensionFileLoader("_native", native)
    spec = spec_from_loader("_native", loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    module.drive_plugin(
        library,
        int(slices),
        keys=f"{folder}/keys",
        queries=f"{folder}/queries",
        facts=f"{folder}/facts",
        parent=int(parent),
        counted=int(counted),
    )


if __name__ == "__main__":
    _main(*sys.argv[1:])
