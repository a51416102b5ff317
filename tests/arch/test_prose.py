"""Pages are wrapped, begin with a short sentence, have short paragraphs, and are not many words in all.

A docstring begins with a short sentence too.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.repository.tree import parsed, script, shown, sources, tracked_files

WRAPPING = script("wrap_markdown")

MOST_WORDS_OF_A_FIRST_SENTENCE = 20
MOST_WORDS_OF_A_PARAGRAPH = 80
MOST_WORDS_OF_USER_PAGES = 25_000
"""All pages of docs but decisions and generated ones, and README.md; never raise it. A word has a letter or a digit:
bars and rules of tables are not counted."""


def pages() -> list[Path]:
    """Pages that people write."""
    return [
        path
        for path in tracked_files()
        if path.suffix == ".md" and not WRAPPING.GENERATED.fullmatch(shown(path))
    ]


def user_pages() -> list[Path]:
    """Pages for users."""
    return [page for page in pages() if re.match(r"README\.md|docs/(?!decisions/)", shown(page))]


@pytest.mark.parametrize("page", pages(), ids=shown)
def test_a_page_is_wrapped_at_110_columns(page: Path) -> None:
    text = page.read_text()
    assert text == WRAPPING.wrap(text), f"wrap it with: python scripts/wrap_markdown.py {shown(page)}"


def test_a_page_begins_with_a_sentence_of_at_most_20_words() -> None:
    sentences = {shown(page): _first_sentence(page) for page in pages()}
    limit = MOST_WORDS_OF_A_FIRST_SENTENCE
    assert {name: text for name, text in sentences.items() if len(text.split()) > limit} == {}


def test_a_docstring_begins_with_a_sentence_of_at_most_20_words() -> None:
    texts = [(path, text) for path in sources() for text in _docstrings(path)]
    assert len(texts) > 3000
    long = [
        (path, text) for path, text in texts if len(_sentence(text).split()) > MOST_WORDS_OF_A_FIRST_SENTENCE
    ]
    assert [f"{shown(path)}: {text}" for path, text in long] == []


def test_a_paragraph_has_at_most_80_words() -> None:
    assert [text for page in pages() for text in _long_paragraphs(page)] == []


def test_the_pages_for_users_do_not_get_longer() -> None:
    assert sum(_word_count(page.read_text()) for page in user_pages()) <= MOST_WORDS_OF_USER_PAGES


def test_a_word_has_a_letter_or_a_digit() -> None:
    assert _word_count("| `a-b` | --- |\n- 2 % + words_\n─── |") == 3


@pytest.mark.parametrize(
    ("text", "wrapped"),
    [
        ("word " * 30, "word " * 21 + "word\n" + "word " * 7 + "word"),
        ("- " + "word " * 30, "- " + "word " * 20 + "word\n  " + "word " * 8 + "word"),
        ("| " + "word " * 30 + "|", "| " + "word " * 30 + "|"),
        ("    " + "code " * 30, "    " + "code " * 30),
        ("```\n" + "code " * 30 + "\n```", "```\n" + "code " * 30 + "\n```"),
        ("a\nb\n\nc", "a b\n\nc"),
        ("word " * 21 + "long `code with blanks` x", "word " * 21 + "long\n`code with blanks` x"),
        ("word " * 22 + "- word", "word " * 20 + "word\nword - word"),
        ("10. a\n\n    b\n    c\n\nd", "10. a\n\n    b c\n\nd"),
    ],
)
def test_prose_is_wrapped_and_tables_and_code_are_not(text: str, wrapped: str) -> None:
    assert WRAPPING.wrap(text) == wrapped


def _word_count(text: str) -> int:
    return sum(any(map(str.isalnum, word)) for word in text.split())


def _first_sentence(page: Path) -> str:
    """Of the first paragraph after the title, or after the status of a decision."""
    texts = [text for text in _paragraphs(page) if not text.startswith("Status: ")]
    return _sentence(texts[0]) if texts else ""


def _docstrings(path: Path) -> Iterator[str]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def _sentence(text: str) -> str:
    return re.split(r"(?<=[.:!?])\s", text)[0]


def _long_paragraphs(page: Path) -> Iterator[str]:
    for text in _paragraphs(page):
        if (count := len(text.split())) > MOST_WORDS_OF_A_PARAGRAPH:
            yield f"{shown(page)}: {count} words: {text[:60]}"


def _paragraphs(page: Path) -> list[str]:
    paragraphs: list[str] = WRAPPING.paragraphs(page.read_text())
    return paragraphs
