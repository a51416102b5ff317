"""Patterns with wildcards: what they match, also if they are made to take long."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claimq_control.wildcards import LONGEST_PATTERN, LONGEST_TEXT, matches


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("redis", ["redis"], ["", "redi", "rediss", "aredis"]),
        ("*", ["", "a", "a.b"], []),
        ("*.svc", [".svc", "a.svc", "a.svc.svc"], ["svc", "a.svc.", "a.svcx"]),
        ("a*b*c", ["abc", "a--b--c", "abbcc"], ["ab", "acb", "abca"]),
        ("ab*ba", ["abba", "ab-ba"], ["aba", "ab"]),
        ("**", ["", "x"], []),
        ("a?c", ["abc", "a?c"], ["ac", "abbc"]),
        ("?*b", ["ab", "abb", "bb"], ["b", "ba"]),
        ("a.c", ["a.c"], ["abc"]),
        ("[ab]", ["[ab]"], ["a"]),
        ("", [""], ["a"]),
    ],
)
def test_a_pattern_matches_whole_texts(pattern: str, matching: list[str], other: list[str]) -> None:
    assert [text for text in matching if not matches(text, pattern)] == []
    assert [text for text in other if matches(text, pattern)] == []


@given(st.text("ab.", max_size=12), st.text("ab.*?", max_size=8))
def test_it_is_the_regular_expression_with_the_same_meaning(text: str, pattern: str) -> None:
    regex = re.escape(pattern).replace(r"\*", "(?s:.*)").replace(r"\?", "(?s:.)")
    assert matches(text, pattern) == (re.fullmatch(regex, text) is not None)


@pytest.mark.parametrize("pattern", ["*a" * 128 + "b", "*?a" * 100 + "b", "*a" * 12 + "b"])
@pytest.mark.timeout(60)  # with a backtracking regular expression it would not end
def test_the_worst_pattern_is_compared_in_time(pattern: str) -> None:
    assert not matches("a" * 250, pattern)


def test_patterns_and_texts_that_are_too_long_do_not_match() -> None:
    assert matches("a" * LONGEST_PATTERN, "a" * LONGEST_PATTERN)
    assert not matches("a" * (LONGEST_PATTERN + 1), "a" * (LONGEST_PATTERN + 1))
    assert not matches("a" * (LONGEST_TEXT + 1), "*")
