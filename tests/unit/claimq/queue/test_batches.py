"""How items become the words of a script call: grouped, numbered, cut into calls."""

import ctypes
import os
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claimq.errors import InvalidName
from claimq.model import NewItem
from claimq.queue.batches import Batch, batch_of, batch_of_payload, queue_words
from claimq.queue.batches import batches_of as batches
from claimq.redis_store.scripts import Arg

Group = tuple[str, str, list[tuple[str, bytes]]]


def read(words: Iterable[Arg]) -> list[Group]:
    """What lib/enqueue.lua reads: (client, due, [(id, payload)]) for each group."""
    sent = list(words)
    groups: list[Group] = []
    at = 0
    while at < len(sent):
        _, _, client, due, prefix, first, count = sent[at : at + 7]
        at += 7
        own = prefix == ""
        items: list[tuple[str, bytes]] = []
        for index in range(int(count)):
            if own:
                items.append((str(sent[at]), _bytes(sent[at + 1])))
            else:
                items.append((f"{prefix!s}{int(first) + index}", _bytes(sent[at])))
            at += 2 if own else 1
        groups.append((str(client), str(due), items))
    return groups


def _bytes(word: Arg) -> bytes:
    assert isinstance(word, bytes)
    return word


def ids_of(batch: Batch) -> list[str]:
    return [item_id for _, _, items in read(batch.words) for item_id, _ in items]


def test_a_call_has_items_of_200_clients_at_most() -> None:
    """A client that is new costs the server more than its item."""
    items = [NewItem("x", client=f"c{number % 401}") for number in range(600)]
    cut = list(batches(items))
    assert [len(batch.ids) for batch in cut] == [200, 200, 200]
    assert [len({client for client, _, _ in read(batch.words)}) for batch in cut] == [200, 200, 200]
    few = [NewItem("x", client=f"c{number % 200}") for number in range(1000)]
    assert [len(batch.ids) for batch in batches(few)] == [1000]


def test_plain_payloads_are_one_group() -> None:
    batch = batch_of(["a", b"b", {"c": 1}])
    ((client, due, items),) = read(batch.words)
    assert (client, due) == ("-", "")
    assert [payload for _, payload in items] == [b"a", b"b", b'{"c":1}']
    assert ids_of(batch) == batch.ids
    assert batch.size == 9


def test_clients_times_and_own_ids_make_groups_in_order() -> None:
    given_ = [
        NewItem("a", client="ann"), NewItem("b", client="ann"), NewItem("c", delay=1.5),
        NewItem("d", at=7.25), NewItem("e", id="x"),
        NewItem("f", id="y", client="ann"), "g",
    ]  # fmt: skip
    groups = read(batch_of(given_).words)
    assert [(client, due, len(items)) for client, due, items in groups] == [
        ("ann", "", 2), ("-", "+1500", 1), ("-", "7250", 1), ("-", "", 1), ("ann", "", 1), ("-", "", 1),
    ]  # fmt: skip
    assert groups[3][2] == [("x", b"e")]


def test_no_delay_is_a_delay_of_nothing() -> None:
    assert [due for _, due, _ in read(batch_of([NewItem("a", delay=0)]).words)] == [""]


def test_an_iterator_is_read_once_and_no_items_are_no_words() -> None:
    assert len(batch_of(iter(["a", "b"])).ids) == 2
    assert batch_of([]).words == []


def test_more_than_a_thousand_items_go_in_several_calls() -> None:
    cut = list(batches(["x"] * 2500))
    assert [len(batch.ids) for batch in cut] == [1000, 1000, 500]
    assert len({item_id for batch in cut for item_id in batch.ids}) == 2500


def test_two_mebibytes_go_in_one_call_and_a_larger_payload_alone() -> None:
    mebibyte = b"x" * (1024 * 1024)
    assert [len(batch.ids) for batch in batches([mebibyte] * 5)] == [2, 2, 1]
    assert [len(batch.ids) for batch in batches([b"a", mebibyte * 3, b"b"])] == [1, 1, 1]


def test_an_atomic_call_is_never_cut() -> None:
    assert len(batch_of(["x"] * 2500).ids) == 2500


def test_ids_of_two_batches_that_are_made_at_once_stay_apart() -> None:
    """Numbers come from one counter for the process, so that threads and interleaved iterators never share one."""

    def interleaving() -> Iterable[object]:
        for number in range(5):
            batch_of(["from elsewhere"])
            yield f"p{number}"

    batch = batch_of(interleaving())
    assert ids_of(batch) == batch.ids
    assert len(set(batch.ids)) == 5


@pytest.mark.parametrize("fork", [os.fork, ctypes.PyDLL(None).fork])  # the second runs no hooks of Python
def test_a_forked_child_makes_ids_of_its_own(fork: Callable[[], int]) -> None:
    batch_of(["a"])
    makes: list[Callable[[], Batch]] = [lambda: batch_of(["a"]), lambda: batch_of_payload("a")]
    for make in makes:
        reading, writing = os.pipe()
        child = fork()
        if child == 0:
            os.write(writing, make().ids[0].encode())
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        theirs, ours = os.read(reading, 100).decode(), make().ids[0]
        os.close(reading)
        os.close(writing)
        assert theirs.rpartition("-")[0] != ours.rpartition("-")[0]


def test_the_queue_and_the_guard_are_filled_in_for_every_group() -> None:
    batch = batch_of(["a", NewItem("b", id="x"), NewItem("c", id="y"), NewItem("d", client="ann")])
    words = list(queue_words(batch, 3, guard=7))
    assert read(words) == read(batch.words)
    heads: list[tuple[Arg, Arg]] = []
    at = 0
    while at < len(words):
        heads.append((words[at], words[at + 1]))
        at += 7 + int(words[at + 6]) * (2 if words[at + 4] == "" else 1)
    assert heads == [(3, 7)] * 3


@pytest.mark.parametrize(
    ("item", "error"),
    [
        (NewItem("a", id="a b"), InvalidName), (NewItem("a", id=""), InvalidName),
        (NewItem("a", client="-"), InvalidName),
        (NewItem(None), TypeError), (NewItem("a", delay=-1), ValueError),
        (NewItem("a", delay=1e11), ValueError),
        (NewItem("a", delay=1, at=1), ValueError), (NewItem("a", at=-1), ValueError), (7, TypeError),
    ],
)  # fmt: skip
def test_what_cannot_be_enqueued_is_refused(item: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        batch_of(["fine", item])


new_items = st.builds(
    NewItem,
    payload=st.binary(max_size=5) | st.text(max_size=5, alphabet=st.characters(exclude_categories=["Cs"])),
    id=st.none() | st.text("abc", min_size=1, max_size=3),
    client=st.none() | st.sampled_from(["ann", "bob"]),
    delay=st.none() | st.sampled_from([0.0, 0.5, 9.0]),
)


@given(st.lists(new_items | st.binary(max_size=5), max_size=30))
def test_every_item_is_sent_once_in_its_order_with_what_it_asks_for(items: list[NewItem | bytes]) -> None:
    batch = batch_of(items)
    sent = [(client, due, item) for client, due, group in read(batch.words) for item in group]
    assert [item_id for _, _, (item_id, _) in sent] == batch.ids
    for given_, (client, due, (item_id, payload)) in zip(items, sent, strict=True):
        new = given_ if isinstance(given_, NewItem) else NewItem(given_)
        assert payload == (new.payload.encode() if isinstance(new.payload, str) else new.payload)
        assert client == (new.client or "-")
        assert due == (f"+{round(float(str(new.delay)) * 1000)}" if new.delay else "")
        assert new.id in (None, item_id)
