"""Merges objects of claimq with objects of a queue's template: maps by key, lists by name. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from claimq_kubernetes.port import Json


def merge(wins: Mapping[str, Any], base: Mapping[str, Any]) -> Json:
    """Merges both maps recursively; entries of ``wins`` take precedence."""
    merged = dict(base)
    for key, value in wins.items():
        under = merged.get(key)
        if isinstance(value, Mapping) and isinstance(under, Mapping):
            merged[key] = merge(cast("Mapping[str, Any]", value), cast("Mapping[str, Any]", under))
        else:
            merged[key] = value
    return merged


def merge_by_name(first: Sequence[Any], second: Sequence[Any]) -> list[Any]:
    """Merges both lists; entries of ``first`` take precedence over those of the same name in ``second``."""
    names = {entry.get("name") for entry in first}
    return [*first, *(entry for entry in second if entry.get("name") not in names)]


def without_empty(body: Mapping[str, Any]) -> Json:
    """``body`` without empty strings, lists and maps, so that server-side apply does not own these fields."""
    return {key: value for key, value in body.items() if value not in ("", [], {}, (), None)}
