"""Push delivery with SIGKILL of the app and of the sidecar at random points: every item accounted for by its id."""

import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import claimq.blocking
from claimq.policy import Policy
from testkit.processes import Process, whole_lines
from testkit.server import Server
from testkit.sidecars import Sidecar
from testkit.waiting import eventually_sync

ITEMS = 80
KILLS = 8
APP = """
import http.server, os, socketserver, sys, time

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        time.sleep(0.01)
        os.write(1, f"{self.headers['ce-id']}\\n".encode())
        self.send_response(204)
        self.send_header("content-length", "0")
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
    """The app, which prints the id of each item when it has finished it."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "app.sock"
        self._log = folder / "log"
        self._process: Process | None = None

    def start(self) -> None:
        self._process = Process([sys.executable, "-c", APP, self.socket], log=self._log)

    def kill9(self) -> None:
        assert self._process is not None
        self._process.kill9()

    @property
    def finished(self) -> list[str]:
        lines = whole_lines(self._log) if self._log.exists() else []
        return [line for line in lines if line.startswith("item-")]


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    made = App(tmp_path)
    made.start()
    yield made
    made.kill9()


def test_each_item_is_finished_whichever_process_is_killed(valkey: Server, app: App) -> None:
    chance = random.Random(7)
    ids = {f"item-{number}" for number in range(ITEMS)}
    with claimq.blocking.connect(valkey.url) as server:
        queue = server.queue("q")
        queue.set_policy(Policy(requeue_limit=50, busy_expiry=0.6))
        pushes = {"push_socket": str(app.socket), "concurrency": "4"}
        with Sidecar(valkey.url, **pushes) as sidecar:
            victims: list[App | Sidecar] = [app, sidecar]
            for number in range(KILLS):
                for item in sorted(ids)[number * ITEMS // KILLS : (number + 1) * ITEMS // KILLS]:
                    queue.enqueue(item, id=item)
                seen, more = len(app.finished), chance.randint(1, ITEMS // KILLS // 2)
                eventually_sync(lambda: len(app.finished) >= seen + more)  # noqa: B023 - called in this pass
                victim = chance.choice(victims)
                victim.kill9()
                victim.start()
            eventually_sync(lambda: not any(queue.lengths().values()))
            stats = queue.stats()
    assert set(app.finished) == ids
    assert (stats["enqueued"], stats["done"]) == (ITEMS, ITEMS)
