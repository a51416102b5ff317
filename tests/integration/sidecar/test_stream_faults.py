"""The app, the sidecar, the server or their connection ends at each step of a stream; then every item is accounted for,
by its id, and no item was worked on under two claims."""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import pytest

from claimq.blocking import BlockingQueue
from claimq.model import NewItem, State
from claimq.policy import Policy
from claimq.redis_store.scripts import script
from testkit.checkers.history import Audit, Event, Kill, check
from testkit.faults.links import Request
from testkit.faults.proxy import FaultProxy
from testkit.plugin import ProxyFactory, ServerFactory
from testkit.servers.patient import open_blocking_queue
from testkit.servers.server import DURABLE, Server
from testkit.waiting import eventually_sync
from testkit.workers.sidecars import OpenStream, Sidecar, StartSidecar, UnixConnection

LIMIT = 5
VERBS = {"a": "done", "b": "requeue", "large": "done"}
"""The verdict on each item, by id; at its next claim an item is done."""


def is_call(name: str, request: Request) -> bool:
    """Whether it is a call of this script."""
    return not {script(name).sha.encode(), script(name).text.encode()}.isdisjoint(request.words)


class Run:
    """A queue, a sidecar behind a proxy, and an app that notes what it does."""

    stream: OpenStream

    def __init__(self, server: Server, proxy: FaultProxy, sidecar: Sidecar, queue: BlockingQueue) -> None:
        self.server, self.proxy, self.sidecar, self.queue = server, proxy, sidecar, queue
        self.verdicts = UnixConnection(sidecar.socket)
        self.held: dict[str, str] = {}
        self.events: list[Event] = []
        self.kills: list[Kill] = []
        self.app = "app"

    def note(self, op: str, phase: str, rows: Iterable[tuple[Any, ...]] = ()) -> None:
        self.events.append(Event(self.app, time.monotonic(), op, phase, tuple(rows)))

    def enqueue(self, *ids: str) -> None:
        self.note("enqueue", "begin", [(name,) for name in ids])
        self.queue.enqueue_many([NewItem("x" * (500_000 if name == "large" else 1), id=name) for name in ids])
        self.note("enqueue", "end", [(name,) for name in ids])

    def note_claims(self, claims: list[Any]) -> None:
        self.note("claim", "end", [(one["id"], one["token"], one["requeue_count"]) for one in claims])
        self.held |= {one["token"]: one["id"] for one in claims}

    def open(self) -> None:
        """Opens a stream with the items in progress."""
        self.note("claim", "begin")
        self.stream = self.sidecar.open_stream(window=2, tokens=list(self.held))
        for token in self.stream.first.get("lost", ()):
            del self.held[token]

    def open_with(self, *ids: str) -> None:
        """Opens a stream and reads these items."""
        self.enqueue(*ids)
        self.open()
        self.note_claims(self.stream.items(len(ids)))

    def batch(self) -> dict[str, list[Any]]:
        verdicts: dict[str, list[Any]] = {}
        for token, name in self.held.items():
            verdicts.setdefault(VERBS[name], []).append({"token": token})
        for verb, listed in verdicts.items():
            self.note(verb, "begin", [(self.held[one["token"]], one["token"]) for one in listed])
        return verdicts

    def wait_for_call(self, name: str, seen: int) -> None:
        """Waits until a call of this script is on its way to the server, behind the first ``seen`` commands."""
        eventually_sync(lambda: any(is_call(name, one) for one in self.proxy.requests[seen:]), why=name)


# What an app and its stream are in the middle of. Where a call is in flight, the server is paused.
def opening(run: Run) -> None:
    run.open_with("a")
    run.sidecar.kill9()
    run.sidecar.start()
    run.stream.close()
    run.server.sigstop()
    run.verdicts.request("POST", "/v1/stream", json.dumps({"tokens": list(run.held)}))
    eventually_sync(lambda: run.sidecar.info["sessions"] == 1)


def claiming(run: Run) -> None:
    run.enqueue("a", "b")
    seen = len(run.proxy.requests)
    run.server.sigstop()
    run.open()
    run.wait_for_call("claim", seen)


def line_written(run: Run) -> None:
    run.enqueue("a")
    run.open()
    eventually_sync(lambda: run.sidecar.info["in_flight"] == 1)


def line_partly_read(run: Run) -> None:
    run.enqueue("large", "a")
    run.open()
    eventually_sync(lambda: run.sidecar.info["in_flight"] == 2)
    run.stream.skip(1000)


def verdicts_in_flight(run: Run) -> None:
    run.open_with("a", "b")
    seen = len(run.proxy.requests)
    run.server.sigstop()
    run.verdicts.request("POST", "/v1/verdicts", json.dumps(run.batch()))
    run.wait_for_call("done", seen)


def reply_to_verdicts_lost(run: Run) -> None:
    run.open_with("a", "b")
    fault = run.proxy.drop_reply(matching=partial(is_call, "done"))
    run.verdicts.request("POST", "/v1/verdicts", json.dumps(run.batch()))
    eventually_sync(lambda: fault.hit is not None and run.queue.stats()["done"] == 1)


def window_closing(run: Run) -> None:
    claiming(run)
    assert run.sidecar.post("/v1/window", session=run.stream.id, window=0)["tokens"] == []


def stream_closing(run: Run) -> None:
    run.open_with("a", "b")
    seen = len(run.proxy.requests)
    run.server.sigstop()
    run.held.clear()
    run.stream.close()
    run.wait_for_call("give_back", seen)


STEPS = (
    opening,
    claiming,
    line_written,
    line_partly_read,
    verdicts_in_flight,
    reply_to_verdicts_lost,
    window_closing,
    stream_closing,
)


def end_app(run: Run) -> None:
    run.held.clear()
    run.stream.close()
    run.verdicts.close()
    run.app = "next app"


def end_sidecar(run: Run) -> None:
    run.sidecar.kill9()
    run.server.sigcont()
    run.sidecar.start()


def end_server(run: Run) -> None:
    at = time.monotonic()
    run.server.kill9()
    run.server.start()
    run.queue.reap()
    run.kills.append(Kill("server", "", at, back=time.monotonic()))


def end_connections(run: Run) -> None:
    run.proxy.cut()


FAULTS = (end_app, end_sidecar, end_server, end_connections)


@pytest.fixture
def run(start_server: ServerFactory, start_proxy: ProxyFactory, start_sidecar: StartSidecar) -> Iterator[Run]:
    server = start_server(options=DURABLE)
    proxy = start_proxy(server)
    with open_blocking_queue(server.url) as queue:
        sidecar = start_sidecar(proxy.url)
        queue.set_policy(Policy(requeue_limit=LIMIT, busy_expiry=2.0))
        made = Run(server, proxy, sidecar, queue)
        yield made
        made.verdicts.close()


def settle(run: Run) -> bool:
    """The verdicts on the items in progress, repeated until they are answered."""
    if not run.held:
        return True
    reply = run.sidecar.post("/v1/verdicts", **run.batch())
    for one in reply["outcomes"]:
        name = run.held.pop(one["token"])
        run.note(VERBS[name], "end", [(name, one["token"], one.get("earlier", one["outcome"]))])
    return True


def finish(run: Run) -> bool:
    """Claims what there is and is done with it; whether the queue is empty."""
    run.queue.reap()
    run.note("claim", "begin")
    claims = run.sidecar.claim(9)
    run.note_claims(claims)
    for one in claims:
        run.note("done", "begin", [(one["id"], one["token"])])
        (outcome,) = run.sidecar.outcomes("done", one["token"])
        run.note("done", "end", [(run.held.pop(one["token"]), one["token"], outcome)])
    return not any(run.queue.lengths().values())


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_every_item_is_accounted_for(
    run: Run, step: Callable[[Run], None], fault: Callable[[Run], None]
) -> None:
    step(run)
    fault(run)
    run.server.sigcont()
    run.proxy.heal()
    if fault is end_sidecar:
        run.open()
    eventually_sync(lambda: settle(run))
    run.stream.close()
    eventually_sync(lambda: finish(run))
    failed = [(one.item.id, one.item.requeue_count) for one in run.queue.items(State.FAILED)]
    audit = Audit(failed=failed, counters=dict(run.queue.stats()))
    items = sum(len(event.rows) for event in run.events if (event.op, event.phase) == ("enqueue", "end"))
    finding = check(run.events, audit, run.kills, requeue_limit=LIMIT, least_hits={}, least_items=items)
    assert finding.verdict == "valid", finding.problems
