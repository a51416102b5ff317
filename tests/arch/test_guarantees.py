"""Every sentence of docs/guarantees.md is in guarantees.toml beside this file, with the tests that prove it."""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from testkit.repository.tree import ROOT

PAGE = ROOT / "docs" / "guarantees.md"
PROOFS = Path(__file__).with_name("guarantees.toml")
END = re.compile(r"(?<=[.:])\s+(?=[A-Z`*])")
"""Between two sentences."""


def paragraphs(text: str) -> Iterator[str]:
    """The page's paragraphs, points and rows of its table, each as one line. Headings are left out."""
    lines: list[str] = []
    for line in [*text.splitlines(), ""]:
        is_row = line.startswith("|")
        if not line.strip() or is_row or re.match(r"(\d+\. |- |#)", line):
            if lines:
                yield " ".join(lines)
            lines = []
        if is_row and "---" not in line:
            yield line
        elif line.strip() and not line.startswith("#") and not is_row:
            lines.append(re.sub(r"^(\d+\.|-) ", "", line.strip()))


def sentences() -> list[str]:
    """All sentences of the page; a row of the table is one."""
    return [
        sentence
        for paragraph in paragraphs(PAGE.read_text())
        for sentence in ([paragraph] if paragraph.startswith("|") else END.split(paragraph))
    ]


@cache
def proofs() -> dict[str, list[str]]:
    """Sentence to its tests. `without_test` says which part has none, and why."""
    entries = tomllib.loads(PROOFS.read_text())["sentence"]
    found = {entry["text"]: entry.get("tests", []) for entry in entries}
    assert len(found) == len(entries), "a sentence is in guarantees.toml twice"
    for entry in entries:
        assert set(entry) <= {"text", "tests", "without_test"}, entry
        assert entry.get("tests") or entry.get("without_test"), entry
    return found


@cache
def names_in(file: str) -> frozenset[str]:
    """The names of a file's tests."""
    nodes = ast.walk(ast.parse((ROOT / "tests" / file).read_text()))
    return frozenset(
        node.name
        for node in nodes
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_")
    )


def test_every_sentence_of_the_guarantees_names_its_tests() -> None:
    missing = [sentence for sentence in sentences() if sentence not in proofs()]
    assert missing == [], (
        "write these into tests/arch/guarantees.toml, word for word, with the tests that prove them"
    )


def test_no_proof_is_kept_of_a_sentence_that_is_not_in_the_page() -> None:
    assert [sentence for sentence in proofs() if sentence not in sentences()] == []


def test_every_test_that_proves_a_guarantee_exists() -> None:
    named = {test for tests in proofs().values() for test in tests}
    absent = [test for test in named if test.partition("::")[2] not in names_in(test.partition("::")[0])]
    assert absent == []


def test_the_page_is_taken_apart_into_all_its_words() -> None:
    words = re.findall(r"\w+", re.sub(r"(?m)^(#.*|\|[ |-]+\|)$|^\d+\. ", "", PAGE.read_text()))
    assert re.findall(r"\w+", " ".join(sentences())) == words
