"""A directive for what the code knows better than a page.

    ```{generated} KIND
    what of that kind
    ```

It is made when the site is built, so that it cannot differ from the code.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from typer.main import get_command
from typer.testing import CliRunner

import pmoss_datasets
from pmoss_benchmarks.texts.papers import FOLDER
from pmoss_benchmarks.texts.render import PICTURES, pages_of, write_papers
from pmoss_datasets.card import card
from pmoss_env.cli.app import make_app
from pmoss_env.pictures import new_figure, write_png


def docstring(path: str) -> str:
    """The text of a class, given as ``module:Class``."""
    module, _, name = path.partition(":")
    return inspect.getdoc(getattr(importlib.import_module(module), name)) or ""


def listing(command: str) -> str:
    """What a command of ``pmoss`` that knows ``--json`` lists, as a table."""
    done = CliRunner().invoke(make_app(), [*shlex.split(command), "--json"])
    if done.exit_code:
        raise ValueError(f"pmoss {command}: {done.output}")
    rows = json.loads(done.stdout)
    return _table(list(rows[0]), [row.values() for row in rows])


def mapping(words: str) -> str:
    """A table of a mapping's values: ``module:NAME FIELD FIELD ...``."""
    path, *fields = words.split()
    module, _, name = path.partition(":")
    values = getattr(importlib.import_module(module), name).values()
    return _table(fields, [[getattr(value, field) for field in fields] for value in values])


def dataset_card(identifier: str) -> str:
    """The card of a dataset, below a heading of the page."""
    return re.sub("^#", "##", card(pmoss_datasets.load(identifier)), flags=re.M)


def file(words: str) -> str:
    """A text that lies elsewhere in the repository; its links lead to the site's pages.

    A second line names the heading before which it ends.
    """
    name, _, end = words.partition("\n")
    path = REPOSITORY / name
    text = path.read_text(encoding="utf-8")
    return _links(text[: _heading(text, end).start()] if end else text, path.parent)


def section(words: str) -> str:
    """One section of such a text, as a page: the file and the heading, a line each."""
    name, _, title = words.partition("\n")
    path = REPOSITORY / name
    text = path.read_text(encoding="utf-8")
    heading = _heading(text, title)
    # From the second level on, for a comment of a shell begins with one sign.
    end = re.compile(rf"^#{{2,{len(heading[1])}}} ", re.M).search(text, heading.end())
    return _links(f"# {title}{text[heading.end() : end.start() if end else None]}", path.parent)


def _heading(text: str, title: str) -> re.Match[str]:
    if match := re.search(rf"^(##+) {re.escape(title)}$", text, re.M):
        return match
    raise ValueError(f"no heading {title!r}")


def commands(_: str) -> str:
    """What each command does, in a line that leads to its page, and the pages below this one."""
    every = [*_commands()]
    lines = "\n".join(
        f"- [`{context.command_path}`](commands/{_slug(context)}.md): {_first_line(command)}"
        for command, context in every
    )
    tree = "\n".join(f"commands/{_slug(context)}" for _, context in every)
    return f"{lines}\n\n```{{toctree}}\n:hidden:\n\n{tree}\n```"


def _commands() -> Iterator[tuple[Any, Any]]:
    """Every command that does something, with its context."""
    command = get_command(make_app())
    yield from _below(command, command.context_class(command, info_name="pmoss"))


def _below(command: Any, context: Any) -> Iterator[tuple[Any, Any]]:
    # Typer's commands need not be of the installed Click's classes.
    if not hasattr(command, "list_commands"):
        yield command, context
        return
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        if not inner.hidden:
            yield from _below(inner, inner.context_class(inner, info_name=name, parent=context))


def _slug(context: Any) -> str:
    return str(context.command_path).removeprefix("pmoss ").replace(" ", "-")


def _first_line(command: Any) -> str:
    return " ".join(inspect.cleandoc(command.help or "").partition("\n\n")[0].split())


def _command_page(command: Any, context: Any) -> str:
    """A command: usage, help, arguments and options."""
    usage = " ".join(command.collect_usage_pieces(context))
    parts = [
        f"# {context.command_path}",
        f"```console\n$ {context.command_path} {usage}\n```",
        _examples(inspect.cleandoc(command.help or "")),
    ]
    named = (each for each in command.params if each.name != "help")
    rows = [_parameter(each) for each in named if not getattr(each, "hidden", False)]
    if rows:
        parts.append(_table(("argument or option", "what it says", "default"), rows))
    return "\n\n".join(parts) + "\n"


def _examples(text: str) -> str:
    """Shows the examples of a help text as what can be copied."""
    text = text.replace("\\<", "<")
    text = re.sub(r"^Example: (.*(?:\n\S.*)*)", r"```console\n$ \1\n```", text, flags=re.M)
    return re.sub(r"<(?=\w)", "&lt;", text)


def _parameter(parameter: Any) -> tuple[str, str, str]:
    if parameter.param_type_name == "option":
        name = ", ".join(f"`{word}`" for word in [*parameter.opts, *parameter.secondary_opts])
    else:
        name = f"`{parameter.name.upper()}`"
    help_ = re.sub(r"\\?<(?=\w)", "&lt;", parameter.help or "")
    usual = parameter.default
    shown = "" if usual is None or usual is False or callable(usual) else f"`{usual}`"
    return name, help_, shown


def rendering(words: str) -> str:
    """Code of a page that gives an ``image``, and the picture: the first line is its caption."""
    caption, _, code = words.partition("\n")
    names: dict[str, Any] = {}
    exec(code, names)
    figure = new_figure(*(side / 100 for side in names["image"].shape[1::-1]))
    figure.figimage(names["image"], resize=True)
    name = f"render-{sha256(code.encode()).hexdigest()[:12]}.png"
    write_png(figure, REPOSITORY / PICTURES / name)
    return f"```python\n{code}\n```\n\n![{caption}](/_pictures/{name})"


def _table(head: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    cells = [[_cell(value) for value in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *cells])


def _cell(value: Any) -> str:
    return " ".join(str(value).split()).replace("|", "\\|")


REPOSITORY = Path(__file__).resolve().parents[2]
#: Folder of the pages of commands; git ignores it.
COMMANDS = "reference/commands"
#: Files of the repository that are pages of the site.
PAGES = {
    "GLOSSARY.md": "/concepts/glossary.md",
    "CONTRIBUTING.md": "/development/contributing.md",
    "CHANGELOG.md": "/development/changelog.md",
}
KINDS: Mapping[str, Callable[[str], str]] = {
    "docstring": docstring,
    "listing": listing,
    "mapping": mapping,
    "card": dataset_card,
    "commands": commands,
    "file": file,
    "rendering": rendering,
    "section": section,
}


def _links(text: str, folder: Path) -> str:
    """A text of a folder whose links to files of the repository lead on from any page."""

    def led(match: re.Match[str]) -> str:
        target, _, anchor = match[1].partition("#")
        path = (folder / target).resolve()
        if not target or not path.is_relative_to(REPOSITORY):
            return match[0]
        name = path.relative_to(REPOSITORY).as_posix()
        place = _page_of(name) or f"/../{name}"
        return f"]({place}{'#' if anchor else ''}{anchor})"

    # Blocks of code stay as they are.
    parts = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)
    parts[::2] = [re.sub(r"\]\((?!\w+:)([^)\s]+)\)", led, part) for part in parts[::2]]
    return "".join(parts)


def _page_of(name: str) -> str | None:
    """The page of the site that shows a file of the repository, from the site's root."""
    if name.startswith("docs/"):
        return name.removeprefix("docs")
    return PAGES.get(name)


def make_papers(app: Sphinx) -> None:
    """Makes the pages of the papers, before pages are looked for."""
    written = write_papers(pages_of(REPOSITORY))
    for path in {*(REPOSITORY / FOLDER).glob("*.md")} - {*written}:
        path.unlink()


def make_commands(app: Sphinx) -> None:
    """Makes a page of each command, before pages are looked for."""
    folder = Path(app.srcdir, COMMANDS)
    folder.mkdir(parents=True, exist_ok=True)
    pages = {f"{_slug(each[1])}.md": _command_page(*each) for each in _commands()}
    for path in folder.glob("*.md"):
        if path.name not in pages:
            path.unlink()
    for name, text in pages.items():
        path = folder / name
        # What did not change is not built again.
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def read_page(app: Sphinx, name: str, content: list[str]) -> None:
    """Fills the tags of a page from stored rows, and lets its links to such files lead on."""
    path = Path(app.srcdir, name)
    page = path.relative_to(REPOSITORY).with_suffix(".md")
    content[0] = _links(pages_of(REPOSITORY).render(content[0], page), path.parent)


def tables_of_docstrings(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Turns the Markdown tables of a docstring into what autodoc can read."""
    converted: list[str] = []
    for before, line in pairwise(["", *lines]):
        row = line.strip()
        if not row.startswith("|"):
            converted.append(line)
            continue
        if not before.strip().startswith("|"):
            converted += [".. list-table::", "   :header-rows: 1", ""]
        if not re.fullmatch(r"[|\-: ]+", row):
            first, *rest = [cell.strip() for cell in row.strip("|").split("|")]
            converted += [f"   * - {first}", *(f"     - {cell}" for cell in rest)]
    lines[:] = converted


class Generated(SphinxDirective):
    """Puts the Markdown of one of ``KINDS`` here, with its headings below those of the page."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """See the base."""
        kind = self.arguments[0]
        if kind not in KINDS:
            raise self.error(f"{kind}: is none of {', '.join(KINDS)}")
        text = KINDS[kind]("\n".join(self.content).strip())
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_directive("generated", Generated)
    app.connect("builder-inited", make_papers)
    app.connect("builder-inited", make_commands)
    app.connect("source-read", read_page)
    app.connect("autodoc-process-docstring", tables_of_docstrings)
    return {"parallel_read_safe": True}
