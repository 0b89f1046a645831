"""Changes to files as a forger would make them, with valid checksums."""

import hashlib
import json
import shutil
from pathlib import Path

import h5py

#: Part of the names of modules that must never be imported.
FRAGMENT = "must_not_run"


def change_metadata(source: Path, target: Path, **changes: object) -> Path:
    """Copies a dataset and changes keys of its metadata; the checksum fits again."""
    shutil.copytree(source, target)
    text = json.dumps({**json.loads((target / "metadata.json").read_text()), **changes})
    (target / "metadata.json").write_text(text)
    with h5py.File(target / "data.hdf5", "a") as file:
        file.attrs["metadata_sha256"] = hashlib.sha256(text.encode()).hexdigest()
    return target
