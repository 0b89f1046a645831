"""Sentences of pages, docstrings and comments are short."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sources import REPOSITORY, sources

MOST_WORDS = 25
#: Pages whose sentences are held to the limit, beside docstrings and comments.
PAGES = ("GLOSSARY.md", "CONTRIBUTING.md", "README.md")


def without_tables(text: str) -> str:
    """A text without its tables, quoted code and figures in columns."""
    text = re.sub(r"```.*?```|^<!--.*?-->$", " ", text, flags=re.DOTALL | re.MULTILINE)
    # Tags that fill a page: a statement says nothing, and an expression is one word.
    text = re.sub(r"\{%.*?%\}", " ", text, flags=re.DOTALL)
    text = re.sub(r"\{\{.*?\}\}", "figure", text, flags=re.DOTALL)
    text = re.sub(r"`[^`\n]+`", "code", text)
    lines = text.splitlines()
    kept = [line for line in lines if not re.match(r"\s*[|#>!-]|.*\S {3,}\S", line)]
    return "\n".join(kept)


def sentences(text: str) -> Iterator[str]:
    part = r"\n\s*\n|\n\s*(?=[-*] |[\w`*][\w`*, ]*: |Args:|Returns:|Raises:|Example)|::\n"
    for paragraph in re.split(part, without_tables(text)):
        yield from re.split(r"(?<=[.!?:;])\s+", " ".join(paragraph.split()))


def texts_of(path: Path) -> Iterator[str]:
    """The docstrings and comments of a source file, or a whole page."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield source
        return
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                yield ast.get_docstring(node) or ""
    mark = r"\s*#:? ?(.*)" if path.suffix == ".py" else r"\s*///?<? ?(.*)"
    block: list[str] = []
    for line in [*source.splitlines(), ""]:
        if match := re.match(mark, line):
            block.append(match[1])
        elif block:
            yield "\n".join(block)
            block = []


@pytest.mark.parametrize("ending", [".py", ".cpp", ".hpp", ".md"])
def test_sentences_are_short(ending: str) -> None:
    long_sentences = []
    for path in sources(ending):
        name = path.relative_to(REPOSITORY).as_posix()
        if ending == ".md" and name not in PAGES and not name.startswith("docs/"):
            continue
        for text in texts_of(path):
            for sentence in sentences(text):
                count = sum(bool(re.search(r"\w", word)) for word in sentence.split())
                if count > MOST_WORDS:
                    long_sentences.append(f"{name}: {count} words: {sentence}")
    assert not long_sentences, "\n".join(long_sentences)
