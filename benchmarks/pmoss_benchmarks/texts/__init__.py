"""Tables and sentences of the pages, made from the committed results: ``pmoss dev report``."""

from pmoss_benchmarks.study.store import find_root
from pmoss_benchmarks.texts.pages import Page, make_pages
from pmoss_benchmarks.texts.stale import Stale, find_stale

__all__ = ["Page", "Stale", "find_root", "find_stale", "make_pages"]
