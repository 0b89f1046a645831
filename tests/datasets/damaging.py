"""Datasets that a foreign writer has changed."""

import json

import h5py

from pmoss_datasets import storage as storage_module

TOY = {"machine": "toy", "slices": 8, "interference": "busy_core"}


def rewrite(folder, change):
    """Changes metadata.json and makes the data file agree, as a foreign writer would."""
    data = json.loads((folder / "metadata.json").read_text())
    change(data)
    text = json.dumps(data)
    (folder / "metadata.json").write_text(text)
    with h5py.File(folder / "data.hdf5", "a") as file:
        file.attrs["metadata_sha256"] = storage_module.hashlib.sha256(text.encode()).hexdigest()
        if isinstance(data.get("schema_version"), int):
            file.attrs["schema_version"] = data["schema_version"]
