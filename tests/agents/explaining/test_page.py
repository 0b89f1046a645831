"""The page: whole without anything else, readable in light and dark, and true to the tables."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

from pmoss_agents.explaining.chip import AMOUNTS, DIFFERENCES
from pmoss_agents.explaining.measuring import explain
from pmoss_agents.explaining.page import explain_page
from pmoss_datasets.evaluation import DEFAULT_ENV, make_environment
from pmoss_env.baselines import make_baseline

VOID = {"meta", "br", "link", "img", "hr"}


class Balanced(HTMLParser):
    """Fails on a tag that is closed in the wrong place."""

    def __init__(self):
        super().__init__()
        self.open = []
        self.seen = set()

    def handle_starttag(self, tag, attributes):
        self.seen.add(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def page(a="os-default", b="lpt", **kwargs):
    env = make_environment(DEFAULT_ENV, {"reward": "terminal", "slices": 64, **kwargs})
    choices = {name: make_baseline(name, shared=True) for name in (a, b)}
    comparison = explain(env, 0, choices)
    env.close()
    return comparison, explain_page(comparison, "a task <with> signs & more")


@pytest.fixture(scope="module")
def made():
    return page(interference="busy_core")


@pytest.mark.parametrize("machine", ["toy", "skylake-x-8n", "milan-nps4", "random:7"])
def test_every_machine_gets_a_whole_page(machine):
    _, text = page("grouped", "lpt", machine=machine)
    parser = Balanced()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    assert "script" not in parser.seen
    for svg in re.findall(r"<svg.*?</svg>", text, re.S):
        ElementTree.fromstring(svg)


def test_the_page_needs_nothing_else(made):
    _, text = made
    assert not re.search(r"https?://|@import|url\(|src=|@font-face", text)
    assert "a task &lt;with&gt; signs &amp; more" in text


def test_every_worker_and_its_slices_are_drawn(made):
    comparison, text = made
    after = re.findall(r"<svg.*?</svg>", text, re.S)[1]
    root = ElementTree.fromstring(after)
    groups = {g.find("title").text: g for g in root.iter("g")}
    cores = [title for title in groups if re.match(r"core \d+, node", title)]
    machine = comparison.machine
    assert len(cores) == machine.workers.size
    schedule = comparison.after.schedule
    counts = np.bincount(schedule.cores, minlength=machine.cores)
    for title in cores:
        core = int(re.match(r"core (\d+)", title)[1])
        plural = "" if counts[core] == 1 else "s"
        assert re.search(rf"\b{counts[core]} slice{plural}\b", title)
        drawn = [r for r in groups[title].iter("rect") if r.get("class").startswith("s")]
        assert len(drawn) == counts[core]
        heights = sum(float(r.get("height")) for r in drawn)
        busy = comparison.after.snapshot.counter("elapsed_us")[schedule.cores == core].sum()
        assert heights == pytest.approx(34 * busy, abs=0.05 * (1 + counts[core]))


def test_hot_memory_and_slowed_cores_are_marked(made):
    comparison, text = made
    first, second, difference = re.findall(r"<svg.*?</svg>", text, re.S)
    use = comparison.tables["node"].column("use")
    assert (use[0] >= 0.85).sum() == 1
    assert 'path class="hot"' in first
    assert (use[1] < 0.85).all()
    assert 'class="hot"' not in second
    assert 'class="slowed"' in second
    assert re.search(r'class="d[0-4]"', difference)
    assert re.search(r'class="d([6-9]|10)"', difference)


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1])
def test_colours_differ_in_light_and_dark(made, theme):
    root = re.findall(r":root\{(.*?)\}", made[1])[theme]
    values = dict(re.findall(r"--(\w+):(#\w+);", root))
    assert contrast(values["ink"], values["page"]) > 7
    assert contrast(values["quiet"], values["page"]) > 4.5
    assert contrast(values["hot"], values["tile"]) > 3
    amounts = [luminance(values[f"s{i}"]) for i in range(AMOUNTS)]
    steps = np.diff(amounts)
    assert (steps < 0).all() if theme == 0 else (steps > 0).all()  # in grey too
    assert contrast(values[f"s{AMOUNTS - 1}"], values["tile"]) > 4.5
    # Red and green cannot be all that parts less from more: blue does.
    less, more = (int(values[name][5:7], 16) for name in ("d0", f"d{DIFFERENCES - 1}"))
    assert less - more > 100


def test_names_of_any_length_wrap_on_a_phone(made):
    """A name is a path or module:Class; it stands in these elements, and in tables that scroll."""
    _, page = made
    style = page[page.index("<style>") : page.index("</style>")]
    wrapped = re.search(r"([^{}]*)\{[^}]*overflow-wrap: anywhere", style)
    assert wrapped
    selectors = {selector.strip() for selector in wrapped[1].split(",")}
    body = re.sub(r'<div class="scroll">.*?</div>|<svg.*?</svg>', "", page, flags=re.DOTALL)
    body = body[body.index("<body>") :]
    named = set(re.findall(r"<(\w+)[^<>]*>[^<>]*\b(?:os-default|lpt)\b", body))
    assert named <= selectors and {"h1", "figcaption"} <= named


def test_units_have_their_plural_and_tables_scroll_on_a_phone(made):
    _, page = made
    assert "querys" not in page
    assert "million queries/s" in page
    assert page.count("<table>") == page.count('<div class="scroll"><table>')


def test_data_that_the_kernel_left_elsewhere_are_reported(made, capsys):
    from pmoss_agents.cli.explain import _print

    comparison, text = made
    assert "are not where" not in text
    away = {"data": {"not_in_place": {"3": "the node is <full>"}}}
    after = replace(comparison.after, snapshot=replace(comparison.after.snapshot, provenance=away))
    comparison = replace(comparison, after=after)
    text = explain_page(comparison, "a task")
    sentence = f"Data of 1 slices are not where {after.name} places them:"
    assert f"<p>{sentence}<br>  slice 3: the node is &lt;full&gt;</p>" in text
    _print(comparison, 1)
    assert f"{sentence}\n  slice 3: the node is <full>\n" in capsys.readouterr().out
