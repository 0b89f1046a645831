"""What makes pages easier to read: figures that stay in one line, pictures with captions."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

_NUMBER = r"[-+\N{MINUS SIGN}]?\d[\d,.]*(?: ?%)?"
#: A number, or a number and the interval behind it.
_FIGURE = re.compile(rf"{_NUMBER}(?: ?\[{_NUMBER}, {_NUMBER}\])?")


def keep_figures_whole(app: Sphinx, tree: nodes.document) -> None:
    """Marks the cells that hold a number or an interval: the style sheet breaks none of them."""
    for cell in tree.findall(nodes.entry):
        if _FIGURE.fullmatch(cell.astext().strip()):
            cell["classes"].append("figure-cell")


def caption_pictures(app: Sphinx, tree: nodes.document) -> None:
    """Shows what a picture that stands alone is called, below it."""
    for number, image in enumerate(list(tree.findall(nodes.image))):
        alone = image.parent
        if isinstance(alone, nodes.paragraph) and len(alone) == 1 and image.get("alt"):
            caption = nodes.caption("", image["alt"])
            alone.replace_self(nodes.figure("", image, caption, ids=[f"figure-{number}"]))


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("doctree-read", keep_figures_whole)
    app.connect("doctree-read", caption_pictures)
    return {"parallel_read_safe": True}
