"""A claim that does not say how long it waits: the client asks the sidecar, and so knows when to expect the reply."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import claimq.worker
from claimq.blocking import BlockingQueue
from claimq.policy import Policy
from claimq_sidecar.claims.calls import LONGEST_WAIT
from testkit.waiting import eventually_sync
from testkit.workers.sidecars import Sidecar


class RecordingSidecar:
    """Answers claims with no items, and keeps their bodies."""

    def __init__(self, path: Path, claim_wait: float) -> None:
        self.path, self._claim_wait = path, claim_wait
        self.claims: list[dict[str, Any]] = []
        self.info_count = 0
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(10)
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        try:
            while True:
                threading.Thread(target=self._answer, args=[self._listener.accept()[0]], daemon=True).start()
        except OSError:
            return  # closed

    def _answer(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as requests:
            while line := requests.readline():
                length = 0
                while (header := requests.readline().strip().lower()) != b"":
                    if header.startswith(b"content-length:"):
                        length = int(header.split(b":")[1])
                body = requests.read(length)
                if line.startswith(b"GET /v1/info "):
                    self.info_count += 1
                    reply: dict[str, Any] = {"claim_wait": self._claim_wait}
                else:
                    self.claims.append(json.loads(body))
                    reply = {"claims": [], "draining": False}
                raw = json.dumps(reply).encode()
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(raw), raw))


@pytest.fixture
def recording(tmp_path: Path) -> Iterator[RecordingSidecar]:
    made = RecordingSidecar(tmp_path / "s", 2.5)
    yield made
    made.close()


def test_a_claim_names_the_wait_that_the_sidecar_reports(recording: RecordingSidecar) -> None:
    began = time.monotonic()
    with claimq.worker.connect(recording.path, session=False) as worker:
        assert [worker.claim(), worker.claim(), worker.claim(wait=4)] == [[], [], []]
    assert [claim["wait"] for claim in recording.claims] == [2.5, 2.5, 4.0]
    assert 1 <= recording.info_count <= 1 + (time.monotonic() - began) / 5


def test_the_wait_that_the_sidecar_reports_is_the_policy_s(sidecar: Sidecar, queue: BlockingQueue) -> None:
    assert sidecar.info["claim_wait"] == 1.0
    queue.set_policy(Policy(claim_wait_timeout=7))
    eventually_sync(lambda: sidecar.info["claim_wait"] == 7.0)
    queue.set_policy(Policy(claim_wait_timeout=None))
    eventually_sync(lambda: sidecar.info["claim_wait"] == LONGEST_WAIT)
