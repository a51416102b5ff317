"""Items that an app has received ahead: a permit in the session's FIFO says whether it has begun one."""

import json
import os
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from claimq.blocking import BlockingQueue
from claimq.limits import Limit
from claimq.model import State
from claimq.policy import Policy
from testkit.servers.server import Server
from testkit.waiting import eventually_sync
from testkit.workers.sidecars import Sidecar, StartSidecar, UnixConnection

COUNT = 6


class App:
    """An app with one item in progress, which has received items ahead of it."""

    def __init__(self, sidecar: Sidecar, **words: object) -> None:
        self.sidecar = sidecar
        self.session = sidecar.open_session({"ahead": True})
        self.fifo = os.open(self.session.first["permits"], os.O_RDONLY | os.O_NONBLOCK)
        (item,) = sidecar.claim(1, session=self.session.id, encoding="text")
        self.reply = self.next(item["token"], **words)

    def next(self, *done: str, **words: object) -> Any:
        body = {"done": [{"token": token} for token in done], "session": self.session.id, "encoding": "text"}
        return self.sidecar.post("/v1/next", **{**body, "ahead": COUNT, **words})

    def begin(self, count: int) -> list[int]:
        """The numbers of the permits that it gets."""
        numbers: list[int] = []
        for _ in range(count):
            try:
                numbers += struct.unpack("=Q", os.read(self.fifo, 8))
            except BlockingIOError:
                break
        return numbers


def fill(queue: BlockingQueue) -> None:
    queue.enqueue_many(str(number) for number in range(1 + COUNT))


@pytest.fixture
def items(queue: BlockingQueue) -> None:
    fill(queue)


@pytest.fixture
def slow(queue: BlockingQueue, items: None, sidecar: Sidecar) -> Iterator[App]:
    """It has begun two of six items, which follow the one that is done. The others go back if they are not begun.

    On a busy machine all six may have gone back before it begins two: then all is repeated.
    """
    app = App(sidecar)
    for _ in range(20):
        numbers = app.begin(2)
        if numbers:
            assert numbers == [1, 2]
            break
        app.session.close()
        eventually_sync(lambda: queue.length(State.MAIN) == COUNT)
        queue.flush()
        fill(queue)
        app = App(sidecar)
    yield app
    app.session.close()


def waiting(queue: BlockingQueue) -> list[tuple[str, int]]:
    """Payload and crash count of the items in main."""
    return [(item.payload.decode(), item.crash_count) for item in queue.peek(10)]


def test_items_that_the_app_does_not_begin_go_back_to_the_head_uncounted(
    slow: App, queue: BlockingQueue
) -> None:
    assert [claim["text"] for claim in slow.reply["claims"]] == ["1", "2", "3", "4", "5", "6"]
    assert (slow.reply["first"], slow.reply["slots"], slow.reply["ahead"]) == (1, 1, 100)
    eventually_sync(lambda: waiting(queue) == [("3", 0), ("4", 0), ("5", 0), ("6", 0)])
    assert slow.begin(1) == []
    assert queue.length(State.BUSY) == 2


def test_the_death_of_an_app_counts_for_the_items_that_it_has_begun(slow: App, queue: BlockingQueue) -> None:
    slow.session.close()
    eventually_sync(lambda: queue.length(State.MAIN) == COUNT)
    assert sorted(waiting(queue)) == [("1", 1), ("2", 1), ("3", 0), ("4", 0), ("5", 0), ("6", 0)]
    assert not Path(slow.session.first["permits"]).exists()


def test_items_that_the_app_has_not_begun_are_not_in_progress(slow: App, sidecar: Sidecar) -> None:
    assert sidecar.info["in_flight"] == 2
    assert sidecar.metric("claimq_sidecar_claims_in_flight") == 2


def test_a_drain_takes_back_what_the_app_has_not_begun(slow: App, queue: BlockingQueue) -> None:
    slow.sidecar.begin_drain()
    eventually_sync(lambda: queue.lengths()[State.MAIN] == 4)
    assert slow.begin(1) == []
    tokens = [claim["token"] for claim in slow.reply["claims"]]
    assert slow.sidecar.outcomes("done", *tokens[2:]) == ["lost"] * 4
    assert slow.sidecar.outcomes("done", *tokens[:2]) == ["done", "done"]


def test_a_claim_that_waits_for_a_slot_ends_the_claims_ahead(
    valkey: Server, queue: BlockingQueue, items: None, start_sidecar: StartSidecar
) -> None:
    sidecar = start_sidecar(valkey.url, concurrency="1")
    app = App(sidecar)
    assert app.begin(1) == [1]
    assert sidecar.claim(1, wait=0) == []
    assert app.begin(1) == []
    eventually_sync(lambda: queue.length(State.MAIN) == COUNT - 1)
    token = app.reply["claims"][0]["token"]
    assert sidecar.outcomes("done", token) == ["done"]
    (item,) = sidecar.claim(1, wait=60, encoding="text")
    assert item["text"] == "2"


def test_items_ahead_share_the_slots_on_which_the_app_works(
    valkey: Server, queue: BlockingQueue, items: None, start_sidecar: StartSidecar
) -> None:
    sidecar = start_sidecar(valkey.url, concurrency="2")
    app = App(sidecar)
    assert (len(app.reply["claims"]), app.reply["slots"]) == (COUNT, 1)
    queue.enqueue("more")
    (item,) = sidecar.claim(1, wait=0, encoding="text")
    assert item["text"] == "more"
    assert sidecar.claim(1, wait=0) == []


@pytest.mark.parametrize("setting", [{"claim_ahead": "0"}, {"claim_ahead": "2"}])
def test_no_more_items_are_claimed_ahead_than_the_setting_allows(
    valkey: Server, items: None, start_sidecar: StartSidecar, setting: dict[str, str]
) -> None:
    app = App(start_sidecar(valkey.url, **setting))
    assert len(app.reply["claims"]) == 1 + int(setting["claim_ahead"])
    assert app.reply.get("ahead", 0) == int(setting["claim_ahead"])


def test_with_durable_done_nothing_is_claimed_ahead(
    valkey: Server, queue: BlockingQueue, items: None, start_sidecar: StartSidecar
) -> None:
    queue.set_policy(Policy(durable_done=True))
    app = App(start_sidecar(valkey.url))
    assert (len(app.reply["claims"]), app.reply.get("ahead", 0)) == (1, 0)


def test_with_a_rate_nothing_is_claimed_ahead(
    valkey: Server, queue: BlockingQueue, items: None, start_sidecar: StartSidecar
) -> None:
    queue.update_policy(limits=[Limit("api", rate="1000/s", burst=1000)])
    app = App(start_sidecar(valkey.url))
    assert (len(app.reply["claims"]), app.reply.get("ahead", 0)) == (1, 0)


def test_items_that_the_app_has_not_begun_have_no_processing_timeout(
    valkey: Server, items: None, start_sidecar: StartSidecar
) -> None:
    sidecar = start_sidecar(valkey.url, processing_timeout="1ms")
    app = App(sidecar)
    assert app.begin(1) == [1]
    eventually_sync(lambda: sidecar.metric("claimq_sidecar_claims_overdue") == 1)


def test_a_killed_sidecar_leaves_no_fifo_to_the_next_one(slow: App) -> None:
    path = Path(slow.session.first["permits"])
    slow.sidecar.kill9()
    assert path.exists()
    slow.sidecar.start()
    assert not path.exists()


def test_a_session_without_permits_cannot_claim_ahead(sidecar: Sidecar) -> None:
    session = sidecar.open_session()
    answer = sidecar.ask("POST", "/v1/next", {"session": session.id, "ahead": 1})
    assert answer.status == 400
    assert b"ahead: true" in answer.body


def test_an_app_with_more_loops_stays_within_the_concurrency_limit(
    valkey: Server, queue: BlockingQueue, items: None, start_sidecar: StartSidecar
) -> None:
    queue.enqueue_many(str(number) for number in range(20))
    sidecar = start_sidecar(valkey.url, concurrency="4")
    others = [claim["token"] for claim in sidecar.claim(2)]
    app = App(sidecar, max=4)
    assert app.reply["slots"] == 2
    assert len(app.begin(COUNT)) == COUNT
    sidecar.outcomes("done", *others)
    assert app.next(app.reply["claims"][0]["token"], max=4, ahead=1)["slots"] == 4
    assert sidecar.claim(4, wait=0) == []


def test_a_claim_gets_a_slot_that_is_free_while_an_app_claims_ahead(
    valkey: Server, queue: BlockingQueue, items: None, start_sidecar: StartSidecar
) -> None:
    queue.enqueue_many(str(number) for number in range(20))
    sidecar = start_sidecar(valkey.url, concurrency="3")
    app = App(sidecar, max=2)
    assert app.reply["slots"] == 2
    with closing(UnixConnection(sidecar.socket)) as one, closing(UnixConnection(sidecar.socket)) as two:
        valkey.sigstop()
        done = [{"token": app.reply["claims"][0]["token"]}]
        body = {"done": done, "session": app.session.id, "max": 2, "ahead": 1, "wait": 0}
        one.request("POST", "/v1/next", json.dumps(body))
        assert sidecar.info["draining"] is False  # which is asked after it
        two.request("POST", "/v1/claim", json.dumps({"wait": 0}))
        assert sidecar.info["draining"] is False
        valkey.sigcont()
        reply, claims = (json.loads(connection.getresponse().read()) for connection in (one, two))
    assert (reply["outcomes"][0]["outcome"], reply["slots"]) == ("done", 2)
    assert len(claims["claims"]) == 1
    assert sidecar.claim(1, wait=0) == []


def test_a_claim_gets_a_slot_of_claims_that_went_back_while_an_app_claims_ahead(
    valkey: Server, queue: BlockingQueue, items: None, start_sidecar: StartSidecar
) -> None:
    queue.enqueue_many(str(number) for number in range(20))
    sidecar = start_sidecar(valkey.url, concurrency="1")
    app = App(sidecar)
    while not app.begin(1):  # on a busy machine all have gone back
        app.session.close()
        eventually_sync(lambda: queue.length(State.BUSY) == 0)
        app = App(sidecar)
    with closing(UnixConnection(sidecar.socket)) as one, closing(UnixConnection(sidecar.socket)) as two:
        valkey.sigstop()
        done = [{"token": app.reply["claims"][0]["token"]}]
        one.request("POST", "/v1/next", json.dumps({"done": done, "session": app.session.id, "ahead": COUNT}))
        assert sidecar.info["draining"] is False  # which is asked after it
        two.request("POST", "/v1/claim", json.dumps({"wait": 30}))
        assert sidecar.info["draining"] is False
        valkey.sigcont()
        reply, claims = (json.loads(connection.getresponse().read()) for connection in (one, two))
    assert reply.get("slots", 0) + len(claims["claims"]) == 1


@pytest.mark.parametrize("verb", ["done", "requeue"])
def test_a_claim_that_waits_gets_no_slot_that_an_app_keeps(
    valkey: Server, queue: BlockingQueue, items: None, start_sidecar: StartSidecar, verb: str
) -> None:
    queue.enqueue_many(str(number) for number in range(20))
    sidecar = start_sidecar(valkey.url, concurrency="2")
    app = App(sidecar, max=2)
    assert app.reply["slots"] == 2
    body = {verb: [{"token": app.reply["claims"][0]["token"]}], "session": app.session.id, "max": 2}
    assert sidecar.post("/v1/next", **body, ahead=3, wait=0)["slots"] == 2
    assert sidecar.claim(1, wait=0) == []


def test_a_session_whose_fifo_cannot_be_removed_gives_its_items_back(
    sidecar: Sidecar, queue: BlockingQueue
) -> None:
    queue.enqueue("a")
    session = sidecar.open_session({"ahead": True})
    assert len(sidecar.claim(1, session=session.id)) == 1
    fifo = Path(session.first["permits"])
    fifo.unlink()
    fifo.mkdir()
    session.close()
    eventually_sync(lambda: waiting(queue) == [("a", 1)])
    assert "event=defect" not in sidecar.log.read_text()
