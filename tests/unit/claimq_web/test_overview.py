"""The table of queues: which ones it shows, in which order, on which page."""

import pytest

from claimq_web.curves.overview import (
    PAGE,
    Page,
    Selection,
    grouped,
    namespaces_of,
    notes_of,
    selected,
    warnings_of,
)
from claimq_web.curves.samples import WIDTH, Sample

EMPTY = Sample(*[0.0] * WIDTH)
QUEUES = {
    "media.thumbs": EMPTY._replace(main=5.0, oldest_age=70.0),
    "media.videos": EMPTY._replace(failed=2.0),
    "mail": EMPTY._replace(main=50.0, is_paused=1.0),
}


def names(**query: str) -> list[str]:
    return selected(QUEUES, Selection.of(query))[0]


def test_queues_with_notes_come_first_in_the_natural_order_of_their_names() -> None:
    found = dict.fromkeys(["q10", "q2", "q1", "q11", "q9"], EMPTY)
    noted = {"q11", "q9"}
    assert selected(found, Selection.of({}), noted)[0] == ["q9", "q11", "q1", "q2", "q10"]
    assert selected(found, Selection.of({"sort": "notes", "order": "up"}), noted)[0][-2:] == ["q9", "q11"]
    assert selected(found, Selection.of({"sort": "name"}), noted)[0] == ["q1", "q2", "q9", "q10", "q11"]


def test_queues_are_sorted_by_name_or_by_a_column_either_way() -> None:
    assert names(sort="name") == ["mail", "media.thumbs", "media.videos"]
    assert names(sort="name", order="down") == ["media.videos", "media.thumbs", "mail"]
    assert names(sort="main") == ["mail", "media.thumbs", "media.videos"]
    assert names(sort="main", order="up") == ["media.videos", "media.thumbs", "mail"]
    assert names(sort="oldest")[0] == "media.thumbs"


def test_queues_are_filtered_by_name_and_state() -> None:
    assert names(text="MEDIA") == ["media.thumbs", "media.videos"]
    assert names(show="failed") == ["media.videos"]
    assert names(show="waiting") == ["mail", "media.thumbs"]
    assert names(show="paused", text="media") == []


def test_queues_are_filtered_by_namespace() -> None:
    assert names(namespace="media") == ["media.thumbs", "media.videos"]
    assert names(namespace="media", show="failed") == ["media.videos"]
    assert names(namespace="med") == names(namespace="mail") == []
    assert namespaces_of(["shop.a", "media.thumbs", "mail", "media.x.y"]) == ["media", "shop"]
    assert namespaces_of(["media.thumbs", "media.videos", "mail"]) == []
    assert namespaces_of(f"n{number}.q" for number in range(501)) == []
    assert len(namespaces_of(f"n{number}.q" for number in range(500))) == 500


def test_one_item_is_enough_to_be_shown() -> None:
    found = {"a": EMPTY._replace(main=1.0), "b": EMPTY._replace(failed=1.0), "c": EMPTY}
    assert selected(found, Selection.of({"show": "waiting"}))[0] == ["a"]
    assert selected(found, Selection.of({"show": "failed"}))[0] == ["b"]


def test_a_long_text_of_a_filter_is_cut_to_200_characters() -> None:
    selection = Selection.of({"text": "x" * 201, "namespace": "y" * 201})
    assert (selection.text, selection.namespace) == ("x" * 200, "y" * 200)


def test_ten_thousand_queues_are_divided_into_pages() -> None:
    many = {f"q{n:05}": EMPTY for n in range(10_000)}
    shown, page = selected(many, Selection.of({"page": "200"}))
    assert (len(shown), shown[-1]) == (PAGE, "q09999")
    assert (page.number, page.last, page.total) == (200, 200, 10_000)


@pytest.mark.parametrize("asked", ["", "0", "-1", "x", "1" * 10, "9" * 30, "²"])
def test_an_invalid_page_is_the_first_one(asked: str) -> None:
    assert Selection.of({"page": asked, "sort": "nothing", "show": "?"}) == Selection()


def test_a_page_behind_the_last_one_is_the_last_one() -> None:
    assert Selection.of({"page": "9" * 9}).page == 999_999_999
    assert Page.of(99, 120) == Page(number=3, last=3, total=120, begin=100)
    assert Page.of(5, 0) == Page(number=1, last=1, total=0, begin=0)


def test_a_link_keeps_the_selection_and_escapes_it() -> None:
    selection = Selection.of({"text": '"><b>&', "sort": "main"})
    assert "namespace=a%3Cb" in Selection.of({"namespace": "a<b"}).sorted_by("main")
    assert selection.query(page=2) == "?text=%22%3E%3Cb%3E%26&show=all&sort=main&order=down&page=2"
    assert "order=up" in selection.sorted_by("main")
    assert "order=down" in selection.sorted_by("busy")
    assert Selection(page=3).sorted_by("busy").endswith("&page=1"), "another order begins on the first page"
    assert "order=up" in selection.sorted_by("name")
    assert (selection.aria_sort("main"), selection.aria_sort("busy")) == ("descending", "none")


def test_a_queue_that_needs_attention_has_warnings() -> None:
    assert warnings_of(QUEUES["media.thumbs"], 60.0, 0) == ["oldest item is over the target", "no worker"]
    assert warnings_of(QUEUES["media.thumbs"], 70.0, 1) == []
    assert warnings_of(QUEUES["mail"], None, 0) == ["paused"]
    assert warnings_of(QUEUES["media.videos"], None, 0) == ["failed items"]


def condition(kind: str, status: str, reason: str = "-") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason}


@pytest.mark.parametrize(
    ("status", "notes"),
    [
        ({}, []),
        ({"conditions": [condition("Ready", "True", "Working")]}, []),
        ({"conditions": [condition("Ready", "False", "ImageMissing")]}, ["not ready: ImageMissing"]),
        (
            {"conditions": [condition("ScalingLimited", "True", "MaxReplicas")]},
            ["too few workers: MaxReplicas"],
        ),
        ({"suspend": True, "conditions": [condition("Suspended", "True", "SpecSuspend")]}, ["suspended"]),
        ({"suspend": True}, ["suspended"]),
        ({"conditions": [condition("Full", "True", "MaxWaiting")]}, ["full"]),
        ({"conditions": [condition("RedisReachable", "True", "ReachableWithWarnings")]}, ["server"]),
    ],
)
def test_conditions_are_notes_that_begin_with_a_word_that_users_know(
    status: dict[str, object], notes: list[str]
) -> None:
    assert list(notes_of([], "", status)) == notes


def test_conditions_come_before_other_notes() -> None:
    stuck = {"conditions": [condition("Progressing", "False", "NoProgress")]}
    assert notes_of(["failed items"], "held back", stuck) == ["no progress", "held back", "failed items"]


def test_each_note_is_shown_once_and_a_longer_one_replaces_its_beginning() -> None:
    paused = [condition("Suspended", "True", "PausedByHand")]
    assert notes_of(["paused"], "paused", {"conditions": paused}) == ["paused"]
    forgotten = {"conditions": [*paused, condition("PauseForgotten", "True", "PausedByHand")]}
    assert notes_of(["paused", "failed items"], "paused", forgotten) == [
        "paused for over a day",
        "failed items",
    ]
    still = {"conditions": [condition("Progressing", "False", "NoProgress")]}
    assert notes_of(["no worker"], "no progress", still) == ["no progress", "no worker"]


def test_queues_that_cannot_be_read_are_grouped_by_the_reason() -> None:
    problems = {f"q{number:02}": "away" for number in range(12)} | {"a": "no key"}
    away, other = grouped(problems)
    assert (away.why, away.count, list(away.names)) == ("away", 12, [f"q{number:02}" for number in range(10)])
    assert (other.why, other.count, list(other.names)) == ("no key", 1, ["a"])
    assert len(grouped({str(number): str(number) for number in range(100)})) == 20
