"""A trained agent as a folder that the Hugging Face hub takes as it is."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pmoss_agents import pretrained
from pmoss_datasets.folder import check_target, whole_folder
from pmoss_datasets.hub import CHECKSUMS, write_frame
from pmoss_env.files import read_text

_ABOUT = """# {name}

{words}

## Use it

```console
$ pip install '.[agents,cli]'  # in a checkout of pmoss_env
$ {evaluate}
```

In code: `pmoss_agents.load("{file}")`.
The file holds weights and settings. Nothing in it is executed.

## Make it again

```console
{commands}
```
"""


def export(name: str, out: Path) -> Path:
    """Writes the folder of an agent that ships: checkpoint, card, metadata, checksums.

    A folder that an earlier call wrote for the same agent is kept.

    Returns:
        The folder.

    Raises:
        CheckpointError: its checkpoint or card are damaged.
        DatasetError: something else is there, or nothing can be written there.
    """
    card, checkpoint = pretrained.card(name), pretrained.find(name)
    target = out / checkpoint.stem
    sums = target / CHECKSUMS
    if sums.is_file() and f"{card.sha256}  {checkpoint.name}\n" in read_text(sums):
        return target
    check_target(target, overwrite=False)
    with whole_folder(target) as folder:
        for path in (checkpoint, checkpoint.with_suffix(pretrained.CARD)):
            shutil.copyfile(path, folder / path.name)
        facts = pretrained.in_words(card)
        words = "\n".join(f"- {line}" for line in facts[: facts.index("made by:")])
        task = [word for key, value in card.env.items() for word in ("-e", f"{key}={value}")]
        evaluate = ["pmoss", "evaluate", checkpoint.name, "--domain", card.domain, *task]
        text = _ABOUT.format(
            name=checkpoint.stem,
            words=words,
            file=checkpoint.name,
            evaluate=shlex.join(evaluate),
            commands="\n".join(f"$ {command}" for command in card.commands),
        )
        write_frame(folder, _facts(card, checkpoint.stem), text)
    return target


def _facts(card: pretrained.Card, name: str) -> Mapping[str, Any]:
    """Metadata of a model card, as the hub names them."""
    score = card.score
    result = {
        "task": {"type": "reinforcement-learning", "name": "reinforcement-learning"},
        "dataset": {"name": card.dataset["id"], "type": card.dataset["id"]},
        "metrics": [
            {"type": "score", "value": round(score.value, 2), "name": f"score, {score.unit}"}
        ],
    }
    return {
        "license": card.licence.lower(),
        "library_name": "pmoss-env",
        "pipeline_tag": "reinforcement-learning",
        "tags": ["offline-rl", "gymnasium", "scheduling", "numa", card.agent, card.domain],
        "model-index": [{"name": name, "results": [result]}],
    }
