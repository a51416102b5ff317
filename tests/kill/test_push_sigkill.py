"""Push delivery while the app, the sidecar and the server die by SIGKILL at random points, the sidecar is drained and
its connections to the server and to the app are cut: every item and every verdict accounted for by the item's id.

CLAIMQ_KILL_SEED repeats a run's choices (not its timing).
"""

import itertools
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import claimq.blocking
from testkit.faults.links import Fault
from testkit.faults.proxy import FaultProxy
from testkit.plugin import ServerFactory
from testkit.programs.processes import Process, whole_lines
from testkit.queues.retries import retrying_at_once
from testkit.servers.patient import open_blocking_queue
from testkit.servers.server import DURABLE, Server
from testkit.waiting import eventually_sync
from testkit.workers.killed_programs import SEED
from testkit.workers.sidecars import Sidecar

KINDS = ("app", "app cut", "sidecar", "server", "cut", "lost request", "lost reply", "drain", "killed drain")
REPAIRED_BY_RESTARTS = ("lost request", "lost reply", "cut")
"""What these did wrong may end with the sidecar. So they come again in the end, when no process dies after them."""
LEAST_HITS = 3
"""How often each kind must come while items are in progress."""
BATCH = 10
"""Items that are enqueued before each fault."""
WORKER = "the-sidecar"
LATER, FAILS, REFUSED = "1", "2", "3"
"""The app responds to items whose ids end in this with 429, with 500, both at first only, and with 422."""
APP = """
import http.server, os, random, signal, socket, socketserver, sys, time
from contextlib import suppress

connections = set()

def cut(*_):
    for one in list(connections):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)

signal.signal(signal.SIGUSR1, cut)

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle(self):
        connections.add(self.connection)
        with suppress(OSError):
            super().handle()
        connections.discard(self.connection)

    def finish(self):
        with suppress(OSError):
            super().finish()

    def status(self):
        last = self.headers["ce-id"][-1]
        if last == "3":
            return 422
        is_first = self.headers["ce-requeuecount"] == "0" and "ce-postponedcount" not in self.headers
        return {"1": 429, "2": 500}.get(last, 204) if is_first else 204

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        time.sleep(random.uniform(0, 0.05))
        status = self.status()
        os.write(1, f"{self.headers['ce-id']} {status}\\n".encode())
        self.send_response(status)
        self.send_header("content-length", "0")
        if status == 429:
            self.send_header("retry-after", "0")
        self.end_headers()

    def address_string(self):
        return ""

    def log_message(self, *_):
        pass

socketserver.ThreadingUnixStreamServer.daemon_threads = True
if os.path.exists(sys.argv[1]):
    os.remove(sys.argv[1])
socketserver.ThreadingUnixStreamServer(sys.argv[1], Handler).serve_forever()
"""


class App:
    """The app, which prints the id of each item, and the status, when it responds."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "app.sock"
        self._log = folder / "log"
        self._process: Process | None = None

    def start(self) -> None:
        self._process = Process([sys.executable, "-c", APP, self.socket], log=self._log)

    def kill9(self) -> None:
        assert self._process is not None
        self._process.kill9()

    def cut(self) -> None:
        """Ends its connections; it lives."""
        process = self._process
        assert process is not None
        eventually_sync(lambda: process.handles(signal.SIGUSR1))
        process.send(signal.SIGUSR1)

    @property
    def responses(self) -> list[tuple[str, str]]:
        """The id and the status of each."""
        lines = whole_lines(self._log) if self._log.exists() else []
        return [(line.split()[0], line.split()[1]) for line in lines if line.startswith("item-")]

    def items(self, status: str) -> set[str]:
        """The ids of the items that had a response with this status."""
        return {item for item, its_status in self.responses if its_status == status}


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    made = App(tmp_path)
    made.start()
    yield made
    made.kill9()


class Faults:
    """What may happen to the three processes and their connections, and how often it came in the middle."""

    def __init__(self, server: Server, proxy: FaultProxy, sidecar: Sidecar, app: App) -> None:
        self.server, self.proxy, self.sidecar, self.app = server, proxy, sidecar, app
        self.chance = random.Random(SEED)
        self.hits: Counter[str] = Counter()
        self._armed: dict[str, Fault] = {}

    @property
    def missing(self) -> list[str]:
        """Kinds that must still come in the middle of something."""
        return [kind for kind in KINDS if self.hits[kind] < LEAST_HITS]

    def happen(self, kind: str, *, in_progress: bool) -> None:
        """One fault; what has ended is started again. A hit if items are `in_progress`, unless it is known better."""
        if "drain" in kind:
            self._drain(kind)
        elif "lost" in kind:
            self._lose(kind)
        else:
            self.hits[kind] += in_progress
            self._break(kind)

    def _break(self, kind: str) -> None:
        if kind == "cut":
            self.proxy.cut()
        elif kind == "app cut":
            self.app.cut()
        elif kind == "sidecar":
            self.sidecar.kill9()
            self._start_sidecar()
        else:
            victim = self.app if kind == "app" else self.server
            victim.kill9()
            victim.start()

    def _lose(self, kind: str) -> None:
        """One of the sidecar's next calls about claims, which name it, ends without a reply. The server has carried it
        out (a lost reply), or not.
        """
        if kind in self._armed and self._armed[kind].hit is None:
            return

        def note() -> None:
            self.hits[kind] += 1

        self._armed[kind] = self.proxy.lose_call(
            self.chance, naming=WORKER, only_reply=kind == "lost reply", on_hit=note
        )

    def _drain(self, kind: str) -> None:
        """SIGTERM, mostly another fault in the drain, then SIGKILL or the sidecar's own end."""
        in_flight = self.sidecar.begin_drain()
        if fault := self.chance.choice(
            ("", "app", "app", "app cut", "server", "cut", "lost request", "lost reply")
        ):
            self.happen(fault, in_progress=False)
        if kind == "killed drain":
            time.sleep(self.chance.uniform(0, 0.01))
            code = self.sidecar.running.kill9()
        else:
            code = self.sidecar.running.wait()
            assert code == 0, self.sidecar.log_text[-2000:]
        self.hits[kind] += in_flight > 0 and (code != 0) == (kind == "killed drain")
        self._start_sidecar()

    def _start_sidecar(self) -> None:
        """In half of its lives a drain hardly waits for the app."""
        self.sidecar.env["CLAIMQ_DRAIN_TIMEOUT"] = self.chance.choice(("5ms", "25s"))
        self.sidecar.start()


def work_through(queue: claimq.blocking.BlockingQueue, faults: Faults, kind: str, number: int) -> set[str]:
    """Enqueues some items, the `number`-th ones; the fault comes while the app works on them. Returns their ids."""
    ids = [f"item-{number}-{one}" for one in range(BATCH)]
    seen, more = len(faults.app.responses), faults.chance.randint(1, BATCH // 2)
    for item in ids:
        queue.enqueue(item, id=item)
    eventually_sync(lambda: len(faults.app.responses) >= seen + more, why="the app responds to items")
    faults.happen(kind, in_progress=queue.length("busy") > 0)
    return set(ids)


def test_each_item_gets_its_verdict_whichever_process_is_killed(
    start_server: ServerFactory, app: App
) -> None:
    valkey = start_server(options=dict(DURABLE))
    ids: set[str] = set()
    with (
        open_blocking_queue(valkey.url) as queue,
        FaultProxy(valkey.unix_path) as proxy,
    ):
        queue.set_policy(retrying_at_once(requeue_limit=1000, busy_expiry=0.6))
        pushes = {"push_socket": str(app.socket), "concurrency": "4"}
        with Sidecar(proxy.url, worker=WORKER, **pushes) as sidecar:
            faults = Faults(valkey, proxy, sidecar, app)
            numbers = itertools.count(1)
            while missing := faults.missing:
                assert len(ids) < 200 * BATCH, f"seed {SEED}: only {dict(faults.hits)} in the middle"
                ids |= work_through(queue, faults, faults.chance.choice(missing), next(numbers))
            for kind in REPAIRED_BY_RESTARTS:
                ids |= work_through(queue, faults, kind, next(numbers))
            eventually_sync(
                lambda: not sum(count for state, count in queue.lengths().items() if state != "failed")
            )
            failed, stats = [one.item for one in queue.failed_items(1000)], queue.stats()
    statuses = Counter(status for _, status in app.responses)
    print(f"seed {SEED}: {len(ids)} items, responses {dict(statuses)}, hits {dict(faults.hits)}")
    refused = {item for item in ids if item.endswith(REFUSED)}
    assert sorted(item.id for item in failed) == sorted(refused), SEED
    assert {item.last_error for item in failed} == {"the app responded with status 422"}, SEED
    assert app.items("422") == refused, SEED
    assert app.items("204") == ids - refused, SEED
    for last, status in ((LATER, "429"), (FAILS, "500")):  # these came again, or they would not have 204 too
        assert app.items(status), SEED
        assert all(item.endswith(last) for item in app.items(status)), SEED
    counts = (stats["enqueued"], stats["done"], stats["failed"])
    assert counts == (len(ids), len(ids - refused), len(refused)), SEED
