"""Commands on the items of one client, on delayed items, and on all items."""

import re

from claimq.waiting.texts import instant_text
from testkit.plugin import Claimq


def test_a_delayed_item_is_reported_with_the_time_when_it_is_due(on: Claimq) -> None:
    until = instant_text(2_000_000_000)
    delayed = on("enqueue", "q", "a", "--at", "2000000000").out
    assert delayed == f"q: 1 item enqueued, delayed until {until} (a new queue)\n"
    assert on("enqueue", "q", "a", "--at", "5").out == "q: 1 item enqueued, due now\n"
    later = on("enqueue", "q", "a", "--delay", "1h").out
    assert re.fullmatch(r"q: 1 item enqueued, delayed until \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S+\n", later)


def test_the_items_of_one_client_are_shown_and_removed(on: Claimq) -> None:
    on("enqueue", "q", "a1", "a2", "--client", "a")
    on("enqueue", "q", "b1", "--client", "b")
    shown = on("items", "q", "main", "--client", "a", "--limit", "1", "-o", "json").json
    assert (shown["length"], [row["item"]["text"] for row in shown["items"]]) == (2, ["a1"])
    refused = on("flush", "q", "--client", "a")
    assert (refused.code, refused.err) == (
        2,
        "claimq: this removes all items of the client a in main of q permanently; confirm it with --yes\n",
    )
    assert on("flush", "q", "--client", "a", "--yes").out == "q: 2 items removed\n"
    assert [one["item"]["text"] for one in on("items", "q", "main", "-o", "json").json["items"]] == ["b1"]


def test_clients_are_listed_with_their_items_most_items_first(on: Claimq) -> None:
    on("enqueue", "q", "a1", "--client", "a")
    on("enqueue", "q", "b1", "b2", "b3", "--client", "b")
    on("enqueue", "q", "1", "2")
    found = on("clients", "q", "-o", "json").json
    assert found == {
        "queue": "q",
        "client_count": 2,
        "clients": [
            {"client": "b", "length": 3},
            {"client": None, "length": 2},
            {"client": "a", "length": 1},
        ],
    }
    first = on("clients", "q", "--limit", "1", "-o", "json").json
    assert (first["client_count"], first["clients"]) == (2, found["clients"][:1])
    assert [line.split() for line in on("clients", "q").out.splitlines()[2:]] == [
        ["b", "3"],
        ["-", "2"],
        ["a", "1"],
    ]
    on("flush", "q", "--yes")
    assert on("clients", "q").out == "q: no items in main\n"


def test_one_client_is_shown_with_its_items(on: Claimq) -> None:
    on("enqueue", "q", "b1", "b2", "b3", "--client", "b")
    assert on("clients", "q", "b").out.splitlines()[2].split() == ["b", "3"]
    absent = on("clients", "q", "c")
    assert (absent.code, absent.out) == (0, "q: no items of c in main\n")
    assert on("clients", "q", "c", "-o", "json").json["clients"] == [{"client": "c", "length": 0}]
    assert on("clients", "q", "two words").code == 2
    assert "claimq flush NAME --client CLIENT" in " ".join(on("clients", "--help").out.split())


def test_flush_asks_to_be_sure(on: Claimq) -> None:
    on("enqueue", "q", "a", "b")
    answer = on("flush", "q")
    assert (answer.code, answer.err) == (
        2,
        "claimq: this removes every item of q permanently; confirm it with --yes\n",
    )
    assert on("flush", "q", "--yes", "-o", "json").json["removed"] == {
        "main": 2,
        "busy": 0,
        "delayed": 0,
        "failed": 0,
    }
    assert on("status", "q", "-o", "json").json["lengths"]["main"] == 0
