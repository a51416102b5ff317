"""`claimq claim`, `done` and `fail`: a person works on items without a worker."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import claimq.blocking
from claimq import NewItem
from claimq.blocking import BlockingQueue as Queue
from claimq.model import State
from claimq.policy import Policy, RetryDelay
from testkit.processes import Process
from testkit.server import Server
from testkit.waiting import eventually_sync

Claimq = Callable[..., Any]


@pytest.fixture
def queue(valkey: Server) -> Iterator[Queue]:
    """`q` with the items `a` and `b` in main."""
    with claimq.blocking.connect(valkey.url) as server:
        queue = server.queue("q")
        queue.enqueue_many([NewItem({"size": 1}, id="a"), NewItem("second", id="b")])
        yield queue


def lease_ends(queue: Queue) -> list[float]:
    return [one.lease_until or 0.0 for one in queue.items("busy")]


class Held:
    """A `claimq claim --hold` of a test, and the tokens that it has printed."""

    def __init__(self, url: str, folder: Path, *options: str) -> None:
        self._log = folder / "claim.log"
        words = [sys.executable, "-m", "claimq_cli", "claim", "q", "--redis", url, "-o", "name", *options]
        self.process = Process(words, log=self._log, cwd=folder)

    def tokens(self) -> list[str]:
        """The printed tokens, once it holds their claims."""
        eventually_sync(lambda: "holding" in self._log.read_text(), why="the command to hold its claims")
        return [line for line in self._log.read_text().splitlines() if "/" in line]

    def wait(self) -> tuple[int, str]:
        """Waits for its end; its exit code and its last line."""
        return self.process.wait(), self._log.read_text().splitlines()[-1]


@pytest.fixture
def hold(valkey: Server, queue: Queue, tmp_path: Path) -> Iterator[Callable[..., Held]]:
    """Starts `claimq claim --hold`, which renews every three seconds."""
    queue.set_policy(Policy(busy_expiry=30.0))
    started: list[Held] = []

    def start(*options: str) -> Held:
        started.append(Held(valkey.url, tmp_path, "--hold", *options))
        return started[-1]

    yield start
    for one in started:
        one.process.kill9()


def test_claim_prints_the_item_and_its_token_which_done_takes(on: Claimq, queue: Queue) -> None:
    (claim,) = on("claim", "q", "-o", "json").json["claims"]
    assert (claim["item"]["id"], claim["item"]["payload"]) == ("a", {"size": 1})
    assert claim["lease_until"] > claim["claimed_at"]
    assert on("done", "q", claim["token"]).out == f"q: {claim['token']} done\n"
    assert queue.lengths() == {State.MAIN: 1, State.BUSY: 0, State.DELAYED: 0, State.FAILED: 0}
    assert queue.snapshot().counters["done"] == 1


def test_names_of_claims_are_their_tokens(on: Claimq, queue: Queue) -> None:
    tokens = on("claim", "q", "--limit", "5", "-o", "name").out.split()
    assert len(tokens) == 2
    answer = on("done", "q", *tokens, "-o", "json").json
    assert answer["outcomes"] == [{"token": token, "verdict": "done", "delay": None} for token in tokens]


def test_the_table_shows_token_id_and_payload(on: Claimq, queue: Queue) -> None:
    table = on("claim", "q", "--id", "b").out
    assert table.split()[:5] == ["token", "id", "lease", "until", "payload"]
    assert table.rstrip().endswith("second")


def test_an_item_is_claimed_by_its_id_also_in_a_paused_queue(on: Claimq, queue: Queue) -> None:
    queue.pause()
    refused = on("claim", "q")
    assert (refused.code, refused.err) == (
        1, "claimq: q is paused; run `claimq resume q`, or claim one item with --id\n",
    )  # fmt: skip
    assert on("claim", "q", "--id", "b", "-o", "json").json["claims"][0]["item"]["id"] == "b"


def test_a_claim_without_an_item_says_what_there_is(on: Claimq, queue: Queue) -> None:
    queue.flush()
    queue.enqueue("later", delay=3600)
    answer = on("claim", "q", "--wait", "10ms")
    assert (answer.code, answer.err) == (1, "claimq: q has no item in main (1 delayed)\n")
    answer = on("claim", "q", "--id", "a")
    assert (answer.code, answer.err) == (
        1,
        "claimq: q has no item a in main or delayed; `claimq find q a` shows where it is\n",
    )


def test_an_id_with_a_number_of_items_or_a_wait_is_refused(on: Claimq, queue: Queue) -> None:
    for option in (("--limit", "2"), ("--wait", "1s")):
        answer = on("claim", "q", "--id", "a", *option)
        assert (answer.code, answer.err) == (
            2, "claimq: --id claims one item at once; omit --limit and --wait\n",
        )  # fmt: skip
    assert queue.lengths()[State.BUSY] == 0


def test_fail_records_the_error_and_counts_an_attempt(on: Claimq, queue: Queue) -> None:
    token = on("claim", "q", "-o", "name").out.strip()
    assert on("fail", "q", token, "--error", "broken image").out == f"q: {token} requeued\n"
    found = queue.find("a")
    assert found is not None
    assert (found.state, found.item.last_error, found.item.fail_count) == (State.MAIN, "broken image", 1)


def test_a_permanent_failure_moves_the_item_to_failed(on: Claimq, queue: Queue) -> None:
    token = on("claim", "q", "-o", "name").out.strip()
    assert on("fail", "q", token, "--permanent").out == f"q: {token} failed\n"
    failed = queue.failed_item("a")
    assert failed is not None
    assert failed.item.last_error == "failed by hand"


def test_a_failure_of_a_queue_with_a_retry_delay_prints_the_delay(on: Claimq, queue: Queue) -> None:
    queue.set_policy(Policy(retry_delay=RetryDelay(initial=90.0)))
    token = on("claim", "q", "-o", "name").out.strip()
    assert on("fail", "q", token).out == f"q: {token} delayed for 90 s\n"


@pytest.mark.parametrize("command", ["done", "fail"])
def test_a_lost_claim_is_reported_and_changes_nothing(on: Claimq, queue: Queue, command: str) -> None:
    lost, held = on("claim", "q", "--limit", "2", "-o", "name").out.split()
    queue.unclaim(lost)
    answer = on(command, "q", lost, held)
    assert answer.code == 1
    assert answer.err == (
        f"claimq: the claim {lost} was lost: its lease ended, or it was ended before; nothing was changed "
        "(`claimq find q ID` shows the item)\n"
    )
    assert answer.out.startswith(f"q: {held} ")
    found = queue.find("a")
    assert found is not None
    assert (found.state, found.item.fail_count) == (State.MAIN, 0)


def test_a_text_that_is_no_token_is_refused_before_anything_changes(on: Claimq, queue: Queue) -> None:
    token = on("claim", "q", "-o", "name").out.strip()
    answer = on("done", "q", token, "TOKEN")
    assert answer.code == 2
    assert "TOKEN" in answer.err
    assert [one.action for one in queue.audit_log()] == ["claim"]
    assert queue.lengths()[State.BUSY] == 1


def test_items_whose_tokens_cannot_be_printed_are_given_back(
    valkey: Server, queue: Queue, tmp_path: Path
) -> None:
    words = [sys.executable, "-m", "claimq_cli", "claim", "q", "--redis", valkey.url]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            words, stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False
        )
    assert (done.returncode, done.stderr) == (
        1, "claimq: the tokens cannot be printed (No space left on device); no item was claimed\n",
    )  # fmt: skip
    assert queue.lengths() == {State.MAIN: 2, State.BUSY: 0, State.DELAYED: 0, State.FAILED: 0}


def test_each_command_is_recorded_in_the_audit_log(on: Claimq, queue: Queue) -> None:
    token = on("claim", "q", "-o", "name").out.strip()
    on("done", "q", token)
    on("claim", "q", "--id", "b")
    records = [(one.action, one.target, one.count) for one in reversed(queue.audit_log())]
    assert records == [("claim", "up to 1 item", None), ("done", token, 1), ("claim", "b", None)]


def test_what_was_not_claimed_or_ended_is_recorded_as_not_done(on: Claimq, queue: Queue) -> None:
    token = on("claim", "q", "-o", "name").out.strip()
    on("claim", "q", "--id", "absent")
    on("done", "q", token)
    on("fail", "q", token, "--error", "late")
    records = [(one.action, one.target, one.count) for one in reversed(queue.audit_log())]
    assert records[1:] == [
        ("claim", "absent", None),
        ("claim: not done", "absent", 0),
        ("done", token, 1),
        ("fail", token, 1),
        ("fail: not done", token, 0),
    ]


def test_held_claims_are_renewed_until_they_are_done(
    on: Claimq, queue: Queue, hold: Callable[..., Held]
) -> None:
    held = hold("--limit", "2")
    tokens = held.tokens()
    first = lease_ends(queue)
    eventually_sync(lambda: min(lease_ends(queue)) > max(first), why="a renewal")
    assert on("done", "q", *tokens).code == 0
    assert held.wait() == (0, "claimq: q: all claims have ended")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_gives_held_items_back_in_order(
    on: Claimq, queue: Queue, hold: Callable[..., Held], number: signal.Signals
) -> None:
    held = hold("--limit", "2")
    assert len(held.tokens()) == 2
    held.process.send(number)
    assert held.wait() == (130, "claimq: q: 2 items given back")
    assert [one.id for one in queue.peek(2)] == ["a", "b"]


def test_a_signal_leaves_items_alone_that_have_a_verdict(
    on: Claimq, queue: Queue, hold: Callable[..., Held]
) -> None:
    held = hold("--limit", "2")
    on("done", "q", held.tokens()[0])
    held.process.send(signal.SIGINT)
    assert held.wait() == (130, "claimq: q: 1 item given back")
    assert queue.lengths() == {State.MAIN: 1, State.BUSY: 0, State.DELAYED: 0, State.FAILED: 0}


def test_the_items_of_a_killed_command_come_back(queue: Queue, hold: Callable[..., Held]) -> None:
    queue.set_policy(Policy(busy_expiry=1.0))
    held = hold("--limit", "2")
    held.tokens()
    held.process.kill9()
    claims = eventually_sync(lambda: queue.claim(2, wait=1), why="the end of the leases")
    assert [one.item.crash_count for one in claims] == [1]  # an item that has crashed a worker comes alone


def test_a_signal_ends_the_wait_for_an_item(queue: Queue, hold: Callable[..., Held]) -> None:
    queue.flush()
    held = hold("--wait", "10m")
    eventually_sync(queue.audit_log, why="the command to begin")
    held.process.send(signal.SIGINT)
    code, last = held.wait()
    assert (code, last) == (130, "claimq: interrupted; no item was claimed")
