"""Python in a guest: this host's interpreter, and what modules load that are asked for."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.guest.virtual_machine import Member

#: Every dynamically linked program names it.
_LOADER = "lib64/ld-linux-x86-64.so.2"
#: What a package is made of, beside compiled modules.
_TEXTS = (".py", ".pyc", ".toml")
#: Tells which files a process that imports modules has loaded, and where its packages lie.
_PROBE = """
import importlib, json, sys
from pathlib import Path
for name in sys.argv[1:]:
    importlib.import_module(name)
with open("/proc/self/maps") as maps:
    files = {line.split(maxsplit=5)[5].strip() for line in maps if "/" in line}
packages = {}
for name, module in list(sys.modules.items()):
    files.update(filter(None, (getattr(module, key, None) for key in ("__file__", "__cached__"))))
    if "." not in name and getattr(module, "__file__", None) and hasattr(module, "__path__"):
        packages[name] = str(Path(module.__file__).parent)
print(json.dumps({"files": sorted(files), "packages": packages}))
"""


@dataclass(frozen=True)
class GuestPython:
    """Python for a guest.

    Attributes:
        interpreter: its path in the guest.
        files: of the guest, by path.
        environment: that it needs.
    """

    interpreter: str
    files: dict[str, Member]
    environment: dict[str, str]


def guest_python(*modules: str) -> GuestPython:
    """Everything that a Python with these modules needs: nothing is installed in the guest.

    The packages that importing the modules loads are there whole, but for tests and for compiled
    modules that were not loaded.
    """
    done = subprocess.run(
        [sys.executable, "-c", _PROBE, *modules], capture_output=True, text=True, check=True
    )
    modules_found = json.loads(done.stdout)
    packages = {name: Path(path) for name, path in modules_found["packages"].items()}
    interpreter = Path(sys.executable).resolve()
    loaded = [*map(Path, modules_found["files"]), interpreter]
    for folder in packages.values():
        inside = [path.relative_to(folder) for path in folder.rglob("*")]
        loaded += [folder / p for p in inside if p.suffix in _TEXTS and "tests" not in p.parts]
    paths = set()
    for path in filter(Path.is_file, loaded):
        paths.add(path)
        if ".so" in path.name:
            # Programs ask for libraries by names that are links to them.
            paths.update(link for link in path.parent.iterdir() if _leads_to(link, path))
    files = {str(path).lstrip("/"): Member.of(path) for path in paths}
    # An editable installation keeps the extension elsewhere, and finds it by a hook.
    for path in paths:
        if path.name.startswith("_native.") and path.parent.name == "pmoss_env":
            files[str(packages["pmoss_env"] / path.name).lstrip("/")] = Member.of(path)
    files[_LOADER] = Member.of(Path("/", _LOADER).resolve())
    libraries = {str(path.parent) for path in paths if ".so" in path.name}
    roots = [str(folder.parent) for folder in packages.values()]
    return GuestPython(
        str(interpreter),
        files,
        {
            "PYTHONPATH": ":".join(dict.fromkeys(roots)),
            "PYTHONDONTWRITEBYTECODE": "1",
            "LD_LIBRARY_PATH": ":".join(sorted(libraries)),
            "OPENBLAS_NUM_THREADS": "1",
        },
    )


def _leads_to(link: Path, path: Path) -> bool:
    return link.is_symlink() and link.resolve() == path.resolve()
