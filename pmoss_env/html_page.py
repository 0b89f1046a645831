"""The frame of the pages that need nothing else, no script either."""

from __future__ import annotations

from html import escape


def html_page(title: str, style: str, body: str) -> str:
    """A whole page, which fits a phone and follows the reader's light or dark.

    Args:
        title: plain text, also the first heading.
        style: CSS.
        body: HTML below that heading.
    """
    shown = escape(title)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{shown}</title>
<style>{style}</style>
</head>
<body>
<h1>{shown}</h1>
{body}
</body>
</html>
"""
