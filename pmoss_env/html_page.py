"""Self-contained HTML pages without scripts, in the reader's light or dark mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from types import MappingProxyType

#: (light, dark) by name; each is a CSS variable.
COLOURS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "page": ("#ffffff", "#14181d"),
        "ink": ("#1d2733", "#eef2f6"),
        "quiet": ("#55616e", "#a9b4bf"),
        "line": ("#c9d1d9", "#3b4550"),
        "hot": ("#c04a00", "#ff9d5c"),
        "cold": ("#1a5fa8", "#6db3f2"),
    }
)
_STYLE = """
body { margin: 0 auto; padding: 1.5rem; max-width: 1500px; background: var(--page);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
p, li, h1, figcaption { max-width: 75ch; overflow-wrap: anywhere; }
.quiet, caption { color: var(--quiet); }
.lead { font-size: 1.1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px; }
th, td { padding: .15rem .6rem; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
.scroll { overflow-x: auto; }
@media (max-width: 500px) { body { padding: .75rem; } th, td { padding: .15rem .35rem; } }
"""


def html_page(
    title: str, body: str, style: str = "", colours: Mapping[str, tuple[str, str]] | None = None
) -> str:
    """A whole page, which fits a phone.

    Args:
        title: plain text, also the first heading.
        colours: additional (light, dark) colours by name.
    """
    shown = escape(title)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{shown}</title>
<style>{colour_rules(colours)}{_STYLE}{style}</style>
</head>
<body>
<h1>{shown}</h1>
{body}
</body>
</html>
"""


def colour_rules(colours: Mapping[str, tuple[str, str]] | None = None) -> str:
    """The CSS of COLOURS and additional (light, dark) colours: variables that follow dark mode."""
    light, dark = (
        "".join(f"--{name}:{pair[theme]};" for name, pair in {**COLOURS, **(colours or {})}.items())
        for theme in (0, 1)
    )
    return f":root{{{light}}}@media (prefers-color-scheme: dark){{:root{{{dark}}}}}"


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table that scrolls on a narrow page; all cells are plain text."""

    def line(cells: Sequence[str], kind: str) -> str:
        inside = "".join(f"<{kind}>{escape(cell)}</{kind}>" for cell in cells)
        return f"<tr>{inside}</tr>"

    body = "".join(line(row, "td") for row in rows)
    table = f"<table><thead>{line(head, 'th')}</thead><tbody>{body}</tbody></table>"
    return f'<div class="scroll">{table}</div>'
