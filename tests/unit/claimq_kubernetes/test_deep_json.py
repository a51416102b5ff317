"""JSON with many levels is read as far as it makes sense."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from claimq_kubernetes.deep_json import CUT, MOST_LEVELS, accept_deep_json, without_deep_levels


@pytest.fixture
def accepting() -> Iterator[None]:
    before = json._default_decoder  # type: ignore[attr-defined]  # what it replaces
    accept_deep_json()
    yield
    json._default_decoder = before  # type: ignore[attr-defined]  # as above


def nested(levels: int, inside: str = "1") -> str:
    return '{"a":[' * (levels // 2) + inside + "]}" * (levels // 2)


def depth_of(value: Any) -> int:
    levels = 0
    while value not in (1, CUT):
        value, levels = value[0 if levels % 2 else "a"], levels + 1
    return levels


@pytest.mark.usefixtures("accepting")
@pytest.mark.parametrize("levels", [2, 100, 3000, 10_000])
def test_a_deep_object_is_cut_and_the_others_of_a_list_are_whole(levels: int) -> None:
    text = f'{{"items": [{{"name": "before"}}, {nested(levels)}, {{"name": "] }} \\" [ {{"}}]}}'
    before, deep, after = json.loads(text)["items"]
    assert (before, after) == ({"name": "before"}, {"name": '] } " [ {'})
    assert depth_of(deep) == (levels if levels < 1000 else MOST_LEVELS - 2)


def test_text_without_deep_levels_stays_as_it_is() -> None:
    text = ' {"a": ["b", {"c": "}}]]\\\\"}], "": -1e5} '
    assert without_deep_levels(text) == text


@pytest.mark.usefixtures("accepting")
@pytest.mark.parametrize("broken", ["[" * 5000, nested(3000)[:-1], nested(3000) + "]", '{"a" 1}', ""])
def test_invalid_json_is_an_error_whatever_its_depth(broken: str) -> None:
    with pytest.raises(ValueError, match=r"line|column|char"):
        json.loads(broken)


@pytest.mark.usefixtures("accepting")
def test_bytes_are_read_too() -> None:
    assert depth_of(json.loads(nested(3000).encode())) == MOST_LEVELS
