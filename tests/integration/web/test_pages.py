"""The pages of `claimq web`: what they show, and what they refuse."""

import asyncio
import contextlib
import re
import signal
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from claimq.model import NewItem
from testkit.programs.forked import ForkedProcess
from testkit.servers.patient import open_blocking_queue, open_queue, open_server
from testkit.servers.server import Server
from testkit.waiting import eventually_sync

ITEM_ID = '"><svg/onload=window.hit=1>'


def do(server: Server, name: str, *calls: tuple[str, Any]) -> None:
    """Calls methods of a queue, and adds it to the index."""

    async def work() -> None:
        async with open_queue(server.url, name, worker="w") as queue:
            for method, arguments in calls:
                await getattr(queue, method)(*arguments)
            await queue.add_to_index()

    asyncio.run(work())


def rows(text: str) -> list[str]:
    """The rows of the tables of a page without tags, blanks joined."""
    found = re.findall(r"<tr>(.*?)</tr>", text, re.DOTALL)
    return [" ".join(re.sub(r"<[^>]*>", " ", row).split()) for row in found]


def test_the_overview_has_all_queues_with_their_lengths(page_of_web: Any, media: str, valkey: Server) -> None:
    do(valkey, "mail", ("enqueue_many", (["a", "b"],)))

    def shown() -> str:
        text: str = page_of_web.get().text
        assert len(rows(text)) == 3
        return text

    _, first, mail = rows(eventually_sync(shown))
    assert first.startswith("media 2 1 1 3 ")
    assert "1 busy of 1" in first
    assert first.endswith("failed items")
    assert mail.startswith("mail 2 0 0 0 ")
    assert mail.endswith("no worker")


def test_the_overview_is_filtered_sorted_and_divided_into_pages(start_page: Any, valkey: Server) -> None:
    async def fill() -> None:
        async with open_server(valkey.url) as server:
            for number in range(120):
                queue = server.queue(f"q{number:03}")
                await queue.enqueue_many(["x"] * (1 + number % 7))
                await queue.add_to_index()

    asyncio.run(fill())
    page = start_page()
    eventually_sync(lambda: "120 queues, page 1 of 3" in page.get().text)

    def table(query: str, length: int) -> list[str]:
        """The rows of queues of a page, all of which could be read in time."""

        def found() -> list[str]:
            _, *queues = rows(page.get(query).text)
            assert len(queues) == length
            return queues

        return eventually_sync(found)

    assert table("/?page=3", 20)[0].startswith("q100 ")
    assert table("/?sort=main", 50)[0].startswith("q006 7 ")
    assert [one.split()[0] for one in table("/?text=11&sort=name", 11)] == [
        "q011", *(f"q11{digit}" for digit in range(10)),
    ]  # fmt: skip


def test_only_the_named_queues_are_shown(start_page: Any, media: str, valkey: Server) -> None:
    do(valkey, "mail", ("enqueue", ("a",)))
    page = start_page("mail")
    eventually_sync(lambda: "1 queue" in page.get().text)
    assert "media" not in page.get().text
    assert page.get("/queues/mail").status == 200
    assert page.get("/queues/media").status == 404


def test_a_queue_shows_lengths_workers_and_plots(page_of_web: Any, media: str) -> None:
    def plotted() -> str:
        text: str = page_of_web.get("/queues/media").text
        assert text.count('<svg class="plot"') == 3
        return text

    text = eventually_sync(plotted)
    numbers = dict(re.findall(r"<dt>([^<]*)</dt><dd>([^<]*)", text))
    assert {name: numbers[name] for name in ("main", "busy", "delayed", "failed")} == {
        "main": "2", "busy": "1", "delayed": "1", "failed": "3",
    }  # fmt: skip
    assert "1 live, 1 with claims" in text
    assert "claimq why media" in text


def test_the_pages_of_the_states_have_their_items(page_of_web: Any, media: str) -> None:
    waiting = page_of_web.get("/queues/media/waiting").text
    assert {"waits", "bytes"} <= {one.split()[0] for one in rows(waiting)}
    assert "without a client 1" in rows(waiting)
    assert any(one.startswith("later ") for one in rows(page_of_web.get("/queues/media/delayed").text))
    busy = page_of_web.get("/queues/media/busy").text
    assert "1 in progress" in busy
    assert "&#34;&gt;&lt;svg/onload=window.hit=1&gt;" in busy


def test_failed_items_are_grouped_and_the_latest_is_first(page_of_web: Any, media: str) -> None:
    text = page_of_web.get("/queues/media/failed").text
    assert "Of all 3 failed items." in text
    (link,) = re.findall(r'<a href="(\?reason=[^"]*)"', text)
    assert [one.split()[0] for one in rows(text)[3:]] == ["fail2", "fail1", "fail0"]
    chosen = page_of_web.get("/queues/media/failed" + link.replace("&amp;", "&")).text
    assert "3 items" in chosen
    assert "0 items" in page_of_web.get("/queues/media/failed?reason=other").text


def test_the_page_of_one_failed_item_speaks_of_one(page_of_web: Any, valkey: Server) -> None:
    with open_blocking_queue(valkey.url, "once", worker="w") as queue:
        queue.enqueue("x", id="alone")
        queue.fail(queue.claim(1), "no address", permanent=True)
    assert "Of the failed item." in page_of_web.get("/queues/once/failed").text


def test_of_many_failed_items_only_the_latest_are_read(page_of_web: Any, valkey: Server) -> None:
    async def fill() -> None:
        async with open_queue(valkey.url, "broken", worker="w") as queue:
            for begin in range(0, 1500, 500):
                await queue.enqueue_many([NewItem("x", id=f"i{begin + n}") for n in range(500)])
                for claim in await queue.claim(500, wait=0):
                    await queue.fail(claim, error=f"code {claim.item.id}", permanent=True)

    asyncio.run(fill())
    text = page_of_web.get("/queues/broken/failed").text
    assert "Of all 1,500 failed items." in text
    assert "1,500 items, page 1 of 30" in text
    assert "code i# 1,500" in rows(text)
    chosen = page_of_web.get("/queues/broken/failed?reason=code+i%23").text
    assert "Those among the latest 1,000 of 1,500 failed items." in chosen
    last = page_of_web.get("/queues/broken/failed?page=30").text
    assert rows(last)[-1].startswith("i0 ")


@pytest.mark.parametrize(
    ("item_id", "state"),
    [("waits", "main"), (ITEM_ID, "busy"), ("later", "delayed"), ("fail1", "failed"), ("bytes", "main")],
)
def test_an_item_is_found_in_every_state(page_of_web: Any, media: str, item_id: str, state: str) -> None:
    answer = page_of_web.item("media", item_id)
    assert answer.status == 200
    assert f"<strong>{state}</strong>" in answer.text
    assert ("<dt>held by</dt>" in answer.text) == (state == "busy")
    assert ("<dt>waits</dt>" in answer.text) == (state in ("main", "delayed"))
    assert ("<dt>before it</dt>" in answer.text) == (state == "main")
    assert ("Last error" in answer.text) == (state == "failed")
    assert ("<summary>Text</summary>" in answer.text) == (item_id != "bytes")


def test_no_page_has_foreign_text_as_markup(page_of_web: Any, media: str) -> None:
    paths = ["/", *(f"/queues/media{end}" for end in ("", "/waiting", "/busy", "/delayed", "/failed"))]
    texts = [page_of_web.get(path).text for path in paths]
    texts += [page_of_web.item("media", one).text for one in ("waits", ITEM_ID, "fail1", "<script>no")]
    texts.append(page_of_web.get("/queues/media/failed?reason=<script>no").text)
    texts.append(page_of_web.get("/?text=<script>no").text)
    for text in texts:
        assert not re.search(r"<script>|<img|<svg/|onload=[^&]*>", text.replace("&lt;", ""))
        assert "111111102" not in text, "a template in foreign text was evaluated"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/queues/nothing", "there is no queue nothing here, or you may not use it"),
        ("/queues/nothing/failed", "there is no queue nothing here, or you may not use it"),
        ("/queues/a%20b", "the queue name"),
        ("/queues/media/other", "there is no such page"),
        ("/queues/media/item?id=none", "media has no item none"),
        ("/other", "Not Found"),
        ("/static/../conftest.py", "Not Found"),
    ],
)
def test_what_is_not_there_is_a_page_that_says_so(
    page_of_web: Any, media: str, path: str, reason: str
) -> None:
    answer = page_of_web.get(path)
    assert (answer.status, reason in answer.text) == (404, True)


def test_an_outage_of_the_server_is_shown_and_ends(start_page: Any, start_server: Any) -> None:
    server = start_server()
    do(server, "mail", ("enqueue", ("a",)))
    page = start_page(url=server.url)
    eventually_sync(lambda: "1 queue" in page.get().text)
    server.kill9()
    assert page.get("/queues/mail/waiting", is_down=True).status == 503

    def is_shown() -> bool:
        answer = page.get(is_down=True)
        return answer.status == 503 or "does not answer" in answer.text

    eventually_sync(is_shown)
    server.start()
    eventually_sync(lambda: "does not answer" not in page.get().text)


def test_every_response_forbids_scripts_frames_and_guesses(page_of_web: Any, media: str) -> None:
    for path in ("/", "/queues/media", "/nothing", "/queues/media/item?id=none"):
        headers = page_of_web.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:7380", "127.0.0.1.evil.example", "a b"])
def test_a_name_that_resolves_to_this_machine_is_refused(page_of_web: Any, host: str) -> None:
    assert page_of_web.get(headers={"Host": host}).status in (400, 421)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_only_reading_is_allowed(page_of_web: Any, method: str) -> None:
    answer = page_of_web.get(method=method)
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")
    assert "to change queues start `claimq up --web-actions`" in answer.text


def test_another_site_can_link_to_the_page_but_not_load_it(page_of_web: Any) -> None:
    foreign = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    assert page_of_web.get(headers=foreign).status == 403
    link = foreign | {"Sec-Fetch-Mode": "navigate"}
    assert page_of_web.get(headers=link | {"Sec-Fetch-Dest": "document"}).status == 200
    assert page_of_web.get(headers=link | {"Sec-Fetch-Dest": "iframe"}).status == 403


@pytest.mark.parametrize(("origin", "status"), [("http://evil.example", 403), ("null", 403), ("", 200)])
def test_a_request_that_names_another_site_as_its_origin_is_refused(
    page_of_web: Any, origin: str, status: int
) -> None:
    own = str(page_of_web.url).rstrip("/")
    assert page_of_web.get(headers={"Origin": origin or own}).status == status


def test_a_bare_payload_has_no_link_before_it_has_an_id(page_of_web: Any, valkey: Server) -> None:
    valkey.call("LPUSH", "cq:{media}:main", "a bare payload")
    shown = page_of_web.get("/queues/media/waiting").text
    assert "a bare payload" in shown
    assert "item?id=bare-" not in shown
    assert "1970" not in shown


def test_no_page_and_no_output_shows_the_password(start_page: Any, start_server: Any) -> None:
    server = start_server(tcp=True)
    server.call("CONFIG", "SET", "requirepass", "sesame")
    page = start_page(url=server.tcp_url.replace("//", "//:sesame@", 1))
    server.kill9()
    for path in ("/", "/queues/media"):
        assert "sesame" not in page.get(path, is_down=True).text
    assert "sesame" not in page.log.read_text()


def test_ctrl_c_stops_the_page_with_exit_code_0(page_of_web: Any) -> None:
    page_of_web.process.send(signal.SIGINT)
    eventually_sync(lambda: not page_of_web.process.is_running)
    assert page_of_web.process.returncode == 0


def test_an_address_that_others_can_reach_is_refused(valkey: Server, tmp_path: Path) -> None:
    log = tmp_path / "web.log"
    process = ForkedProcess("claimq_cli", "web", "--redis", valkey.url, "--listen", "0.0.0.0:0", log=log)
    eventually_sync(lambda: not process.is_running)
    assert process.returncode == 2
    assert "has no login, and other machines can reach 0.0.0.0" in log.read_text()


def test_a_port_that_is_in_use_is_named(page_of_web: Any, valkey: Server, tmp_path: Path) -> None:
    log = tmp_path / "second.log"
    address = page_of_web.url.removeprefix("http://").removesuffix("/")
    process = ForkedProcess("claimq_cli", "web", "--redis", valkey.url, "--listen", address, log=log)
    eventually_sync(lambda: not process.is_running)
    assert process.returncode == 1
    assert f"cannot listen on {address}" in log.read_text()


def test_slow_clients_keep_no_others_out(page_of_web: Any) -> None:
    """More connections than are served, none of which ever sends a whole request."""
    address = urlsplit(str(page_of_web.url))
    beginnings = [b"", b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nx-", b"G"]
    whole = b"GET /static/ HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 1000\r\n\r\nx"
    slow: list[socket.socket] = []
    for number in range(200):
        slow.append(socket.create_connection((address.hostname or "", address.port or 0)))
        with contextlib.suppress(ConnectionError):  # a test that stood still has sent nothing for too long
            slow[-1].sendall([*beginnings, whole][number % 4])
        if number % 10 == 9:
            assert page_of_web.get().status == 200
    for one in slow:
        one.close()


def test_a_path_that_leads_out_of_the_static_files_is_not_found(page_of_web: Any) -> None:
    files = re.search(r"/static/\w+/", page_of_web.get().text)
    assert files
    for path in (
        "../security.py",
        "%2e%2e/security.py",
        "..%2fsecurity.py",
        "/etc/passwd",
        "%00",
        "....//security.py",
    ):
        assert page_of_web.get(files[0] + path).status == 404
