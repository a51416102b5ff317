"""Decisions: each page has a status, a date and the two sections that a reader looks for, and is in the index."""

import re
from pathlib import Path

import pytest

from testkit.repository.tree import ROOT

FOLDER = ROOT / "docs" / "decisions"
PAGES = sorted(page for page in FOLDER.glob("*.md") if page.name != "README.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_decision_has_status_date_and_what_was_not_taken(page: Path) -> None:
    text = page.read_text()
    assert re.match(r"# \S.*\n\nStatus: \w+[^\n]*, \d{4}-\d{2}-\d{2}\.", text)
    sections = re.findall(r"(?m)^## (Not taken|Would change our mind)$", text)
    assert sections == ["Not taken", "Would change our mind"]


def test_the_index_names_each_decision_by_its_title() -> None:
    titles = {page.name: page.read_text().split("\n", 1)[0].removeprefix("# ") for page in PAGES}
    text = " ".join((FOLDER / "README.md").read_text().split())
    assert [name for name, title in titles.items() if f"[{title}]({name})" not in text] == []
