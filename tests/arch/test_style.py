"""STYLE.md: the words that it replaces stay out of names and prose."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.repository.tree import ROOT, shown, tracked_files

STYLE = ROOT / "STYLE.md"
WORDS = re.compile(
    r"(?<![a-z])(told|tell|tells|telling|nobody|anew|somebody|whoever|meanwhile|shall)(?![a-z])(?!(?<=\.tell)\(\))",
    re.IGNORECASE,
)
MODULES = re.compile(r"(?<![a-z])(sightings|surroundings|upkeep|doubts)(?![a-z])", re.IGNORECASE)
"""Names of former modules that have a standard name now."""
PHRASES = re.compile(r"\b(in hand|for ever|fields have theirs)\b", re.IGNORECASE)
TEXTS = {".py", ".lua", ".md", ".yaml", ".yml", ".tpl", ".txt", ".json", ".toml", ".sh", ".mk"}
FOLDERS = (
    *(
        "core",
        "spec",
        "worker_sidecar",
        "cli",
        "operator",
        "docs",
        "charts",
        "crds",
        "examples",
        "bench",
        "scripts",
    ),
    *("tests", "."),
)


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_folder_has_private_words(folder: str) -> None:
    found = list(private_words(folder))
    assert found == [], "STYLE.md has the standard words"


def test_the_style_page_has_every_private_word() -> None:
    text = STYLE.read_text()
    patterns = (WORDS.pattern, MODULES.pattern)
    words = [word for pattern in patterns for word in re.findall(r"[a-z]{4,}", pattern.split(")(")[1])]
    assert [word for word in words if not re.search(rf"`{word}`", text)] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def _tell_end(told_at):", ["tell", "told"]),
        ("Nobody shall", ["Nobody", "shall"]),
        ("def test_it_starts_anew():", ["anew"]),
        ("intellectual, marshall, retells, file.tell()", []),
        ("from claimq import sightings", ["sightings"]),
        ("The item in hand waits for ever.", ["in hand", "for ever"]),
    ],
)
def test_private_words_are_found_in_names_and_prose(text: str, words: list[str]) -> None:
    assert list(_words_of(text)) == words


def private_words(folder: str) -> Iterator[str]:
    """The occurrences in the files of a folder (``.``: the files beside the folders), as FILE:LINE: WORD."""
    for path in tracked_files():
        if path in (STYLE, Path(__file__).resolve()) or not _is_text(path):
            continue
        parts = path.relative_to(ROOT).parts
        if (parts[0] if len(parts) > 1 else ".") == folder:
            yield from _in_file(path)


def _in_file(path: Path) -> Iterator[str]:
    for number, line in enumerate(path.read_text().splitlines(), 1):
        for word in _words_of(line):
            yield f"{shown(path)}:{number}: {word}"


def _words_of(text: str) -> Iterator[str]:
    for pattern in (WORDS, MODULES, PHRASES):
        yield from (match[0] for match in pattern.finditer(text))


def _is_text(path: Path) -> bool:
    return path.suffix in TEXTS or path.name in ("Makefile", "Dockerfile")
