"""Joining what claimq sets with what a queue's template says. Pure.

In a map the first one's entry wins; lists are joined by the entries' names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from claimq_operator.kubernetes_api.port import Json


def over(wins: Mapping[str, Any], rest: Mapping[str, Any]) -> Json:
    """``wins`` laid over ``rest``, map by map, key by key."""
    merged = dict(rest)
    for key, value in wins.items():
        under = merged.get(key)
        if isinstance(value, Mapping) and isinstance(under, Mapping):
            merged[key] = over(cast("Mapping[str, Any]", value), cast("Mapping[str, Any]", under))
        else:
            merged[key] = value
    return merged


def by_name(first: Sequence[Any], second: Sequence[Any]) -> list[Any]:
    """Both lists, without those of the second whose name is in the first."""
    names = {one.get("name") for one in first}
    return [*first, *(one for one in second if one.get("name") not in names)]


def without_empty(body: Mapping[str, Any]) -> Json:
    """The entries that say something: empty texts, lists and maps are left out, so that nobody owns them."""
    return {key: value for key, value in body.items() if value not in ("", [], {}, (), None)}
