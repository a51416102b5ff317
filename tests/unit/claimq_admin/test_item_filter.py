"""The table of item filters: what an item passes, and that flags, forms and docs have the same filters."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import click
import pytest

import claimq_web
from claimq.model import Item, Located, State
from claimq_admin.selection.item_filter import FILTERS, PAGE_FILTERS, ItemFilter, fields_of
from claimq_cli.commands.reading.items import items
from claimq_web.changes.filter_forms import filter_of

ROOT = Path(__file__).parents[3]
TEXTS = {
    "error": "time",
    "reason": "Timeout: # s",
    "client": "ann",
    "header": "tenant=acme",
    "min_age": "1m",
    "min_given_up_count": "2",
    "max_given_up_count": "2",
    "payload": "$.n=1",
}
NAMES = {one.name for one in FILTERS}
ITEM = Located(
    Item(
        "a", b'{"n": 1}', enqueued_at=10.0, first_enqueued_at=10.0, client="ann", last_error="Timeout: 5 s",
        given_up_count=2, header_pairs=(("tenant", "acme"),), failed_reason="Timeout: # s",
    ),
    State.FAILED,
    failed_at=40.0,
)  # fmt: skip


def test_each_filter_passes_its_item_and_no_other() -> None:
    wanted = ItemFilter(**{one.name: one.read(TEXTS[one.name]) for one in FILTERS})
    assert wanted.passes(ITEM, 100.0)
    assert not wanted.passes(ITEM, 99.9)
    other = {
        **TEXTS,
        "error": "refused",
        "reason": "x",
        "client": "bob",
        "header": "tenant=x",
        "min_age": "61s",
    }
    other |= {"min_given_up_count": "3", "max_given_up_count": "1", "payload": "$.n=2"}
    for one in FILTERS:
        assert not ItemFilter(**{one.name: one.read(other[one.name])}).passes(ITEM, 100.0), one.name
    assert ItemFilter().passes(ITEM, 0.0)
    assert str(wanted).startswith(
        "error contains 'time', reason 'Timeout: # s', client ann, header tenant=acme"
    )


def test_a_filter_is_the_same_after_its_way_through_a_form() -> None:
    wanted = ItemFilter(**{name: one.read(TEXTS[name]) for name, one in PAGE_FILTERS.items()})
    assert fields_of(wanted) == {name: TEXTS[name] for name in PAGE_FILTERS}
    assert filter_of(fields_of(wanted)) == wanted


def test_no_filter_has_an_empty_value() -> None:
    for one in FILTERS:
        with pytest.raises(ValueError, match="it is empty; give a value, or omit it for all items"):
            one.read("")


def test_flags_forms_and_docs_have_the_filters_of_the_table() -> None:
    assert {one.name for one in fields(ItemFilter)} == NAMES
    flags = {
        parameter.opts[0]: parameter
        for parameter in items.params
        if isinstance(parameter, click.Option) and (parameter.name or "").startswith("only_")
    }
    assert {one.name for one in flags.values()} == {f"only_{name}" for name in NAMES}
    rows = re.findall(r"(?m)^\| (`--.*?) \|", (ROOT / "docs/reference/commands.md").read_text())
    assert flags.keys() <= set(re.findall(r"--[a-z-]+", " ".join(rows)))
    templates = Path(claimq_web.__file__).parent / "templates"
    form = (templates / "parts.html").read_text().partition("macro select(")[2]
    assert set(re.findall(r' name="(\w+)"', form)) <= {*PAGE_FILTERS, "state"}
    [query] = re.findall(r"/selected\?state=&(\S+)`", (ROOT / "docs/web.md").read_text())
    assert {one.rstrip("=") for one in query.split("&")} == {*PAGE_FILTERS}
