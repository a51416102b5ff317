"""Loops of a worker whose steps to the next item wait at a gate before the sidecar."""

import asyncio
import json
import socket
import socketserver
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from claimq.blocking import BlockingQueue
from claimq.model import Verdict
from claimq.worker import AsyncWorker, Item, Worker
from testkit.waiting import eventually, eventually_sync
from testkit.workers.sidecars import Sidecar

LOOPS = 4


def body_of(request: bytes) -> Any:
    return json.loads(request.partition(b"\r\n\r\n")[2])


def is_open(client: socket.socket) -> bool:
    try:
        return bool(client.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except BlockingIOError:
        return True


class Gate(socketserver.ThreadingUnixStreamServer):
    """Passes everything on to a sidecar, but each request of /v1/next only with a permit."""

    daemon_threads = True

    def __init__(self, path: Path, sidecar: Sidecar) -> None:
        self.path = path
        self.seen: list[Any] = []
        """Bodies of these requests."""
        self.change: Callable[[bytes], bytes] = lambda raw: raw
        """What it makes of a request."""
        self.loses_reply = False
        self.lost_reply: tuple[bytes, ...] = (b'"outcomes":[{', b'"claims":[{')
        """What the reply that it loses contains."""
        self._open: set[socket.socket] = set()
        self.connections = 0
        self.announces_drains = threading.Event()
        """While it is not set, sessions do not report that a drain has begun."""
        self.announces_drains.set()
        self._permits = threading.Semaphore(0)
        self._is_open = threading.Event()

        class Passing(socketserver.BaseRequestHandler):
            def handle(passing) -> None:  # noqa: N805 # pyright: ignore[reportSelfClsParameterName] - it uses both
                self.connections += 1
                with suppress(OSError), socket.socket(socket.AF_UNIX) as there:
                    there.connect(str(sidecar.socket))
                    self._open.add(there)
                    replies = threading.Thread(target=self._pass_replies, args=(there, passing.request))
                    replies.start()
                    while data := passing.request.recv(65536):
                        if not self._holds(data) or is_open(passing.request):
                            there.sendall(self.change(data))
                    there.shutdown(socket.SHUT_RDWR)
                    replies.join()

        super().__init__(str(path), Passing)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def _holds(self, data: bytes) -> bool:
        """Waits for the permit of a request that needs one; returns whether it does."""
        if not data.startswith(b"POST /v1/next "):
            return False
        self.seen.append(body_of(data))
        if not self._is_open.is_set():
            self._permits.acquire()
        return True

    def _pass_replies(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536, socket.MSG_PEEK):
                if self.loses_reply and all(part in data for part in self.lost_reply):
                    self.loses_reply = False
                    source.close()  # without reading it, as a client that was cut off
                    break
                if b'{"draining":true}' in data:
                    self.announces_drains.wait()
                target.sendall(source.recv(len(data)))
            target.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        """Breaks all connections."""
        for there in self._open:
            with suppress(OSError):
                there.shutdown(socket.SHUT_RDWR)

    def permit(self) -> None:
        """Lets one request pass."""
        self._permits.release()

    def open(self) -> None:
        """Lets all pass from now on."""
        self._is_open.set()
        for _ in range(LOOPS):
            self._permits.release()

    def shared(self) -> Any:
        """The body of the first shared request, once it is at the gate."""
        eventually_sync(lambda: len(self.seen) > 1)
        return self.seen[1]


def pending(worker: Worker | AsyncWorker) -> int:
    """Verdicts in the request at the gate, and those that wait for the next one."""
    client: Any = getattr(worker, "client", worker)
    return len(client._loops._verdicts._pending)


class Crew:
    """Threads that each run the natural loop of one worker."""

    def __init__(self, worker: Worker, work: Callable[[Item], None] = lambda _: None) -> None:
        self.items: list[Item] = []
        self.errors: list[BaseException] = []
        self._worker = worker
        self._work = work
        self._threads: list[threading.Thread] = []

    def start(self, count: int) -> None:
        for _ in range(count):
            self._threads.append(threading.Thread(target=self._run, daemon=True))
            self._threads[-1].start()

    def share(self, gate: Gate) -> None:
        """Starts four loops: the request of one is at the gate, and the verdicts of three wait to share the next."""
        self.start(1)
        eventually_sync(lambda: len(gate.seen) == 1)
        self.start(LOOPS - 1)
        eventually_sync(lambda: pending(self._worker) == LOOPS)

    def _run(self) -> None:
        try:
            for item in self._worker.items(handle_signals=False, wait=0.1):
                with item:
                    self.items.append(item)
                    self._work(item)
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.errors.append(error)

    def outcomes(self) -> set[Verdict]:
        return {item.outcome.verdict for item in self.items if item.outcome}

    def texts(self) -> list[int]:
        return sorted(int(item.text) for item in self.items)

    def end(self, worker: Worker) -> None:
        worker.stop()
        for thread in self._threads:
            thread.join()
        assert self.errors == []


class Tasks:
    """Tasks that each run the natural loop of one worker, and the token that each has now."""

    def __init__(self, worker: AsyncWorker) -> None:
        self.worker = worker
        self.by_token: dict[str, asyncio.Task[None]] = {}
        self.seen: list[int] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def share(self, gate: Gate) -> None:
        """As :meth:`Crew.share`."""
        self.start(1)
        await eventually(lambda: len(gate.seen) == 1)
        self.start(LOOPS - 1)
        await eventually(lambda: pending(self.worker) == LOOPS)

    def start(self, count: int) -> None:
        self.tasks += [asyncio.ensure_future(self._run()) for _ in range(count)]

    async def _run(self) -> None:
        async for item in self.worker.items(handle_signals=False, wait=0.1):
            async with item:
                task = asyncio.current_task()
                assert task is not None
                self.by_token[item.token] = task
                self.seen.append(int(item.text))

    async def end(self) -> None:
        self.worker.stop()
        await asyncio.gather(*self.tasks, return_exceptions=True)


def numbers(queue: BlockingQueue, count: int) -> None:
    queue.enqueue_many(str(number) for number in range(count))
