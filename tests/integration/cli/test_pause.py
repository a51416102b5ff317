"""`claimq pause`: what it does, and where the pause is shown."""

import re

import pytest

from claimq_admin.changes.local_user import local_user
from claimq_admin.errors import USAGE
from testkit.plugin import Claimq, QueueDo
from testkit.programs.ports import free_port


def test_a_paused_queue_gives_no_claims_until_it_is_resumed(on: Claimq, queue_do: QueueDo) -> None:
    on("enqueue", "q", "a")
    assert on("pause", "q", "-o", "json").json == {"queue": "q", "client": None, "key": None, "paused": True}
    assert queue_do(lambda queue: queue.claim(1, wait=0)) == []
    assert on("status", "q").out.splitlines()[2].startswith("q (paused)")
    assert on("resume", "q").out == "q: resumed\n"
    assert len(queue_do(lambda queue: queue.claim(1, wait=0))) == 1


def test_a_pause_shows_who_made_it_when_why_and_until_when(on: Claimq) -> None:
    on("enqueue", "q", "a")
    words = rf"paused by {re.escape(local_user())} since \S+Z until \S+Z \(schema change\)"
    assert re.fullmatch(f"q: {words}\n", on("pause", "q", "--for", "1h", "--reason", "schema\nchange").out)
    assert re.search(f"q: {words}; to end it now: claimq resume q", " ".join(on("status", "q").out.split()))
    (pause,) = on("status", "q", "-o", "json").json["pauses"]
    assert pause["until"] - pause["at"] == pytest.approx(3600)
    assert re.search(f"the queue is {words}, so no item is claimed", " ".join(on("doctor", "q").out.split()))
    assert "pause" in on("audit", "q").out
    assert "for 1h: schema" in on("audit", "q").out


def test_a_pause_with_an_end_that_is_over_is_refused(on: Claimq) -> None:
    on("enqueue", "q", "a")
    refused = on("pause", "q", "--until", "2020-01-01T00:00:00Z")
    assert refused.code != 0
    assert "until is over by the clock of the server; give a later instant" in refused.err
    assert not on("status", "q", "-o", "json").json["paused"]


def test_a_client_is_paused_and_shown_until_it_is_resumed(on: Claimq, queue_do: QueueDo) -> None:
    on("enqueue", "q", "a", "b", "--client", "ann")
    words = (
        rf"the client ann is paused by {re.escape(local_user())} since \S+Z until it is resumed \(too fast\)"
    )
    assert re.fullmatch(f"q: {words}\n", on("pause", "q", "--client", "ann", "--reason", "too fast").out)
    assert queue_do(lambda queue: queue.claim(1, wait=0)) == []
    shown = " ".join(on("status", "q").out.split())
    assert re.search(f"q: {words}; to end it now: claimq resume q --client ann", shown)
    document = on("status", "q", "-o", "json").json
    assert (document["paused"], document["waiting"]["paused"]) == (False, 2)
    assert (document["pauses"][0]["client"], document["pauses"][0]["items"]) == ("ann", 2)
    assert re.search(words, " ".join(on("doctor", "q").out.split()))
    assert "client ann: too fast" in on("audit", "q").out
    on("pause", "q", "--key", "k")
    shown = " ".join(on("status", "q").out.split())
    assert "--client ann (1 more paused) q: the key k is paused by " in shown, shown
    assert on("resume", "q").out == "q: was not paused\n"
    assert on("resume", "q", "--client", "ann", "-o", "json").json == {
        "queue": "q",
        "client": "ann",
        "key": None,
        "paused": False,
    }
    assert on("resume", "q", "--client", "ann").out == "q: the client ann was not paused\n"
    assert len(queue_do(lambda queue: queue.claim(2, wait=0))) == 2


def test_a_key_is_paused_and_shown_until_it_is_resumed(on: Claimq, queue_do: QueueDo) -> None:
    on("enqueue", "q", "a", "--key", "acme's")
    assert on("pause", "q", "--key", "acme's", "--for", "1h").out.startswith(
        "q: the key acme's is paused by "
    )
    assert queue_do(lambda queue: queue.claim(1, wait=0)) == []
    shown = " ".join(on("status", "q").out.split())
    assert """to end it now: claimq resume q --key 'acme'"'"'s'""" in shown
    assert on("status", "q", "-o", "json").json["waiting"]["paused"] == 1
    assert "client and key are both given" in on("pause", "q", "--key", "a", "--client", "b").err
    assert on("resume", "q", "--key", "acme's").out == "q: the key acme's resumed\n"
    assert len(queue_do(lambda queue: queue.claim(1, wait=0))) == 1


@pytest.mark.parametrize(
    "words", [("pause", "q"), ("limits", "q", "set", "api:rate=1/s")], ids=["pause", "limits"]
)
@pytest.mark.parametrize(
    ("end", "message"),
    [
        (("--for", "1,5h"), "1,5h"),
        (("--until", "25:00"), "write a time of day from 00:00 to 23:59"),
        (("--for", "1h", "--until", "14:00"), "give one of them"),
    ],
    ids=["duration", "time", "both"],
)
def test_a_wrong_end_is_refused_before_the_command_connects(
    claimq: Claimq, words: tuple[str, ...], end: tuple[str, ...], message: str
) -> None:
    refused = claimq(*words, *end, "--redis", f"redis://127.0.0.1:{free_port()}/0")
    assert refused.code == USAGE
    assert message in refused.err
