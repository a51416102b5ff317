"""`claimq web` over the Valkey of the test, a browser, and queues with content that tries to run as a script."""

import http.client
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from playwright.sync_api import Browser, sync_playwright

from claimq.blocking import BlockingQueue
from claimq.model import NewItem
from testkit import tiers
from testkit.programs.forked import ForkedProcess
from testkit.programs.processes import Process
from testkit.servers.binaries import ServerMissing
from testkit.servers.patient import open_blocking_queue, open_blocking_server
from testkit.servers.server import Server
from testkit.waiting import PATIENCE, eventually_sync
from testkit.web.browser import launched
from testkit.web.page_user import PageUser

SCRIPT = "<script>window.hit=1</script><img src=x onerror=window.hit=1>\"'{{12345678*9}}"
CLIENT = "<img/src=x/onerror=window.hit=1>"
WORKER = "<img\tsrc=x>".replace("\t", "-onerror=hit-")
ID = '"><svg/onload=window.hit=1>'


@dataclass(frozen=True)
class Answer:
    """A response."""

    status: int
    headers: dict[str, str]
    text: str


class Page:
    """A `claimq web` of a test."""

    def __init__(self, process: Process, url: str, log: Path) -> None:
        self.process = process
        self.url = url
        self.log = log

    def get(
        self,
        path: str = "/",
        *,
        method: str = "GET",
        body: str | bytes | None = None,
        headers: dict[str, str] | None = None,
        is_down: bool = False,
    ) -> Answer:
        """One request. A page that cannot be read is read again, unless the test's server is down: that server or
        `claimq web` may have stood still for longer than a page waits. So may the test, before it sent the request.
        """

        def answered() -> Answer:
            try:
                answer = self._answer(path, method, body, headers or {})
            except (ConnectionResetError, BrokenPipeError) as error:
                raise AssertionError(repr(error)) from error
            assert is_down or method != "GET" or answer.status != 503, answer.text
            return answer

        return eventually_sync(answered, why=f"{path} is served")

    def _answer(self, path: str, method: str, body: str | bytes | None, headers: dict[str, str]) -> Answer:
        address = urlsplit(self.url)
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=PATIENCE)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read().decode())
        finally:
            connection.close()

    def item(self, queue: str, item_id: str) -> Answer:
        """The page of an item."""
        return self.get(f"/queues/{queue}/item?{urlencode({'id': item_id})}")


StartPage = Callable[..., Page]


@pytest.fixture
def start_page(valkey: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StartPage]:
    """Starts `claimq web` with these arguments and waits until it serves."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    started: list[Process] = []

    def start(*arguments: str, url: str = valkey.url) -> Page:
        log = tmp_path / f"web-{len(started)}.log"
        words = ["web", "--redis", url, "--listen", "127.0.0.1:0", *arguments]
        started.append(ForkedProcess("claimq_cli", *words, log=log, cwd=tmp_path))

        def address() -> str:
            found = re.search(r"http://\S+/", log.read_text())
            return found[0] if found else ""

        url = eventually_sync(address, why="claimq web prints its address", needs=[started[-1]])
        return Page(started[-1], url, log)

    yield start
    for one in started:
        one.kill9()


@pytest.fixture
def page_of_web(start_page: StartPage) -> Page:
    """`claimq web` over the shared Valkey."""
    return start_page()


@pytest.fixture
def media(valkey: Server) -> str:
    """The queue `media` with items in every state; each text that an outsider chooses tries to run as a script."""

    with open_blocking_queue(valkey.url, "media", worker=WORKER) as queue:
        for number in range(3):
            queue.enqueue({"n": number, SCRIPT: [SCRIPT, {"deep": SCRIPT}]}, id=f"fail{number}")
        for claim in queue.claim(3, wait=0):
            error = f"{SCRIPT} at byte {claim.item.id[-1]}"
            queue.fail(claim, error=error, detail=f"line 1\n{SCRIPT}", permanent=True)
        queue.enqueue(SCRIPT, id=ID, client=CLIENT, headers={"traceparent": SCRIPT})
        queue.claim(1, wait=0)
        queue.enqueue_many(
            [
                NewItem(SCRIPT, id="waits", client=CLIENT),
                NewItem(b"\x00\xff", id="bytes"),
                NewItem("x", id="later", delay=3600),
            ]
        )
        queue.add_to_index()
    return "media"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, for the tests of a module: while Playwright runs, no test of this process can run an event loop."""
    with sync_playwright() as playwright:
        try:
            running = launched(playwright)
        except ServerMissing as error:
            tiers.skip_missing(error)
        yield running
        running.close()


@pytest.fixture
def queue(valkey: Server, media: str) -> Any:
    """`media` of the other tests, and an empty queue `other`."""
    with open_blocking_server(valkey.url) as server:
        server.queue("other").pause()
        yield server.queue(media)


@pytest.fixture
def page_with_actions(start_page: Any, queue: BlockingQueue) -> Any:
    return start_page("--actions")


@pytest.fixture
def token(page_with_actions: Any) -> str:
    log: Path = page_with_actions.log
    found = eventually_sync(
        lambda: re.search(r"log in with the token (\S+)\n", log.read_text()),
        needs=[page_with_actions.process],
    )
    assert found
    return found[1]


@pytest.fixture
def user(page_with_actions: Any, token: str) -> PageUser:
    return PageUser(page_with_actions, token)
