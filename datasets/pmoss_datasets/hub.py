"""The common part of folders for the Hugging Face hub: a card with metadata, and checksums.

The metadata are those of the hub's dataset and model cards: YAML between two lines of hyphens.
JSON is YAML, too, so strings are written as JSON has them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pmoss_env.errors import BackendError, DatasetError
from pmoss_env.extras import require
from pmoss_env.files import file_sha256, write_atomically

CARD = "README.md"
CHECKSUMS = "SHA256SUMS"
#: Folder of a dataset in the form that pmoss_datasets reads.
COMPACT = "compact"
#: Files that git keeps outside its own store; those of other endings are small.
_LARGE = ("hdf5", "parquet", "safetensors")


def card_text(facts: Mapping[str, Any], text: str) -> str:
    """A card: metadata, and the text below it.

    Args:
        facts: strings, numbers, or lists of them; other values are written in one line.
    """
    lines = ["---"]
    for key, value in facts.items():
        if isinstance(value, Sequence) and not isinstance(value, str):
            lines += [f"{key}:", *(f"- {_yaml(item)}" for item in value)]
        else:
            lines.append(f"{key}: {_yaml(value)}")
    return "\n".join([*lines, "---", "", text.strip(), ""])


def write_frame(folder: Path, facts: Mapping[str, Any], text: str) -> None:
    """Writes the card of a folder, its attributes for git, and checksums of all its files."""
    write_atomically(folder / CARD, card_text(facts, text))
    rules = [f"*.{ending} filter=lfs diff=lfs merge=lfs -text\n" for ending in _LARGE]
    write_atomically(folder / ".gitattributes", "".join(rules))
    sums = [
        f"{file_sha256(path)}  {path.relative_to(folder).as_posix()}\n"
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != CHECKSUMS
    ]
    write_atomically(folder / CHECKSUMS, "".join(sums))


def check_sums(folder: Path) -> None:
    """Compares the data of a folder with its checksums; one without checksums passes.

    Cards and indexes are left out: each call writes them anew, before the checksums.

    Raises:
        DatasetError: a file of data is not what write_frame() saw.
    """
    sums = folder / CHECKSUMS
    lines = sums.read_text(errors="replace").splitlines() if sums.is_file() else []
    for line in lines:
        checksum, _, name = line.partition("  ")
        parts = Path(name).parts
        of_data = [number for number, part in enumerate(parts) if part in ("data", COMPACT)]
        if not of_data or not (dataset := folder.joinpath(*parts[: of_data[0]])).exists():
            continue
        if not (folder / name).is_file() or file_sha256(folder / name) != checksum:
            raise DatasetError(f"{folder / name}: is not what was written: remove {dataset}")


def send(folder: Path, repository: str, kind: str) -> str:
    """Uploads a folder to the hub, which makes the repository where there is none.

    Who uploads, and where the hub is, are matters of huggingface_hub's own settings.

    Args:
        repository: "USER/NAME".
        kind: "dataset" or "model".

    Returns:
        The address of what was uploaded.

    Raises:
        MissingExtraError: huggingface_hub is not installed.
        BackendError: the hub refuses, or cannot be reached.
    """
    require("huggingface_hub")
    import huggingface_hub

    hub = huggingface_hub.HfApi()
    try:
        hub.create_repo(repository, repo_type=kind, exist_ok=True)
        return str(hub.upload_folder(repo_id=repository, folder_path=folder, repo_type=kind))
    # Errors of the connection come from whichever library it uses.
    except Exception as error:
        raise BackendError(f"{repository}: cannot be uploaded: {error}") from error


def size_category(count: int) -> str:
    """The hub's class of a number of examples."""
    names = ("1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B", "100B", "1T")
    passed = sum(count >= 10 ** (number + 3) for number in range(len(names)))
    if passed == 0:
        return f"n<{names[0]}"
    if passed == len(names):
        return f"n>{names[-1]}"
    return f"{names[passed - 1]}<n<{names[passed]}"


def _yaml(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
