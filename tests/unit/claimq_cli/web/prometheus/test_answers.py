"""Requests to a Prometheus: what they send, how often, and the answers that are refused."""

import asyncio
import json
import logging
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from claimq_cli.errors import CommandError
from claimq_cli.web.prometheus import client, history
from claimq_cli.web.prometheus.client import PrometheusClient, parse_url
from claimq_cli.web.prometheus.history import Prometheus
from claimq_cli.web.prometheus.queries import NoCurves
from testkit.certificates import Certificates
from testkit.ports import free_port

NOW = 1_000_000.0
TOKEN = "a-secret-token"
DATA = json.dumps(
    {
        "status": "success",
        "data": {
            "resultType": "matrix",
            "result": [{"metric": {"state": "main"}, "values": [[999_990, "7"]]}],
        },
    }
).encode()
EMPTY = b'{"status":"success","data":{"resultType":"matrix","result":[]}}'


def response(body: bytes, *headers: str, status: int = 200) -> bytes:
    """A response as it is sent."""
    head = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


class Backend:
    """Sends `reply` to each request, or DATA to the query of items and an empty matrix to the others."""

    def __init__(self) -> None:
        self.reply: bytes | None = None
        self.is_silent = self.repeats = False
        self.requests: list[str] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.requests.append(request)
            if self.is_silent:
                await reader.read()
            reply = self.reply or response(DATA if "queue_items" in request else EMPTY)
            writer.write(reply)
            await writer.drain()
            while self.repeats:
                writer.write(b"x" * 65536)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def listen(self, tls: ssl.SSLContext | None = None) -> asyncio.Server:
        """Starts it."""
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0, ssl=tls)
        scheme, port = "https" if tls else "http", server.sockets[0].getsockname()[1]
        self.url = f"{scheme}://127.0.0.1:{port}"
        return server


@pytest.fixture
async def backend() -> AsyncIterator[Backend]:
    made = Backend()
    server = await made.listen()
    yield made
    server.close()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No answer is late, however busy the machine is."""
    monkeypatch.setattr(client, "_SECONDS", 300.0)


def prometheus(url: str, token_file: Path | None = None, ca_file: Path | None = None) -> Prometheus:
    return Prometheus(PrometheusClient(parse_url(url), token_file, ca_file))


async def problem(of: Prometheus, queue: str = "shop.orders") -> str:
    """Why there are no curves."""
    with pytest.raises(NoCurves) as caught:
        await of.curves(queue, 6, NOW)
    return str(caught.value)


@pytest.mark.usefixtures("patient")
async def test_curves_are_asked_for_once_in_a_while_however_many_wait(backend: Backend) -> None:
    read = prometheus(backend.url + "/prefix/")
    found = await asyncio.gather(*(read.curves("shop.orders", 6, NOW) for _ in range(20)))
    assert all(one["items"]["main"] == [(999_990, 7.0)] for one in found)
    assert len(backend.requests) == 4
    assert all(one.startswith("GET /prefix/api/v1/query_range?query=max+by") for one in backend.requests)
    await read.curves("shop.orders", 1, NOW)
    assert len(backend.requests) == 8


@pytest.mark.usefixtures("patient")
async def test_problems_are_kept_like_curves(backend: Backend) -> None:
    backend.reply, read = response(b"", status=503), prometheus(backend.url)
    assert await problem(read) == await problem(read) == "Prometheus answered with status 503"
    assert len(backend.requests) == 4


@pytest.mark.usefixtures("patient")
async def test_kept_curves_are_few_and_expire(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    read = prometheus(backend.url)
    monkeypatch.setattr(history, "_MOST_KEPT", 1)
    for queue in ("shop.a", "shop.b", "shop.a"):
        await read.curves(queue, 6, NOW)
    assert len(backend.requests) == 12
    monkeypatch.setattr(history, "_KEPT_SECONDS", -1.0)
    await read.curves("shop.a", 6, NOW)
    assert len(backend.requests) == 16


@pytest.mark.usefixtures("patient")
async def test_a_user_who_leaves_ends_only_the_own_wait(backend: Backend) -> None:
    read = prometheus(backend.url)
    leaving = asyncio.ensure_future(read.curves("shop.orders", 6, NOW))
    await asyncio.sleep(0)
    staying = asyncio.ensure_future(read.curves("shop.orders", 6, NOW))
    await asyncio.sleep(0)
    leaving.cancel()
    assert (await staying)["items"]["main"]
    assert len(backend.requests) == 4


async def test_a_server_that_does_not_answer_is_not_waited_for(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_SECONDS", 0.1)
    backend.is_silent = True
    assert await problem(prometheus(backend.url)) == "Prometheus did not answer within 0.1 s"


REFUSED = {
    "an error with text": (response(b"<b>PRIVATE</b>", status=422), "Prometheus answered with status 422"),
    "a redirect": (
        response(b"", "Location: http://127.0.0.1:1/PRIVATE", status=302),
        "Prometheus answered with status 302",
    ),
    "no HTTP": (b"-PRIVATE not HTTP\r\n\r\n", "the answer of Prometheus cannot be read"),
    "no answer": (b"HTTP", "the answer of Prometheus cannot be read"),
    "no JSON": (response(b"<html>PRIVATE"), "the answer of Prometheus cannot be read"),
    "half an answer": (response(DATA)[:-9], "the answer of Prometheus cannot be read"),
    "another protocol": (
        b"HTTP/1.1 101 X\r\nUpgrade: PRIVATE\r\nConnection: upgrade\r\n\r\n",
        "the answer of Prometheus cannot be read",
    ),
}


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("kind", REFUSED)
async def test_an_answer_that_is_refused_is_neither_shown_nor_logged(
    kind: str, backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    backend.reply, why = REFUSED[kind]
    read = prometheus(backend.url)
    assert await problem(read) == why
    assert await problem(read, "shop.others") == why
    assert [record.getMessage() for record in caplog.records] == [why]


@pytest.mark.usefixtures("patient")
async def test_an_answer_without_an_end_is_not_read_to_the_end(backend: Backend) -> None:
    backend.reply, backend.repeats = b"HTTP/1.1 200 OK\r\n\r\n", True
    assert await problem(prometheus(backend.url)) == "the answer of Prometheus is too large"


@pytest.mark.usefixtures("patient")
async def test_problems_are_logged_when_they_begin_and_end(
    backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    read = prometheus(backend.url)
    backend.reply = response(b"", status=500)
    await problem(read, "shop.a")
    await problem(read, "not-a-queue-of-an-object")
    await problem(read, "shop.b")
    backend.reply = None
    await read.curves("shop.c", 6, NOW)
    assert [record.getMessage() for record in caplog.records] == [
        "Prometheus answered with status 500", "Prometheus answers again",
    ]  # fmt: skip


@pytest.mark.usefixtures("patient")
async def test_the_log_says_why_a_server_is_not_reached(caplog: pytest.LogCaptureFixture) -> None:
    assert await problem(prometheus(f"http://127.0.0.1:{free_port()}")) == "Prometheus cannot be reached"
    assert "Connect call failed" in caplog.text


async def test_a_wrong_clock_of_a_queues_server_is_no_error_of_ours(backend: Backend) -> None:
    for until in (float("inf"), float("nan")):
        with pytest.raises(NoCurves, match="clock"):
            await prometheus(backend.url).curves("shop.orders", 6, until)
    assert backend.requests == []


@pytest.mark.usefixtures("patient")
async def test_the_token_is_read_again_for_each_request_and_never_shown(
    backend: Backend, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    read = prometheus(backend.url, file)
    await read.curves("shop.a", 6, NOW)
    assert all(f"\r\nauthorization: bearer {TOKEN}\r\n" in one.lower() for one in backend.requests)
    file.write_text(f"{TOKEN} with\nmore")
    assert await problem(read, "shop.b") == "Prometheus cannot be reached"
    assert f"{file} has no token" in caplog.text
    assert TOKEN not in caplog.text


@pytest.mark.usefixtures("patient")
async def test_a_certificate_is_checked(tmp_path: Path) -> None:
    certificates, tls = Certificates(tmp_path), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificates.server_cert_file, certificates.server_key_file)
    made = Backend()
    async with await made.listen(tls):
        assert await prometheus(made.url, ca_file=certificates.ca_file).curves("shop.orders", 6, NOW)
        assert await problem(prometheus(made.url)) == "Prometheus cannot be reached"


@pytest.mark.parametrize(
    "url",
    [
        "prometheus:9090",
        "ftp://prometheus",
        "http://",
        "http://prometheus:70000",
        "http://prometheus/?a=PRIVATE",
        "http://prometheus/#a",
        "http://a b/",
        "http://[::1",
        "http://" + "PRIVATE" * 20,
    ],
)
def test_a_malformed_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(CommandError, match=r"write http://HOST:9090 or https://HOST/PATH") as caught:
        parse_url(url)
    assert "PRIVATE" not in str(caught.value)


def test_a_url_with_a_password_is_refused_without_it() -> None:
    with pytest.raises(CommandError, match="--prometheus-token-file") as caught:
        parse_url("https://ann:PRIVATE@prometheus/")
    assert "PRIVATE" not in str(caught.value)


def test_a_url_has_a_path_and_the_port_of_its_scheme() -> None:
    found = parse_url("https://[2001:db8::1]/mimir/prometheus/")
    assert (found.host, found.port, found.authority) == ("2001:db8::1", 443, "[2001:db8::1]")
    assert found.path == "/mimir/prometheus"


def test_files_that_cannot_be_meant_are_refused(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    for url, token_file, ca_file, says in (
        ("http://prometheus", token, None, "sent unencrypted"),
        ("http://prometheus", None, token, "goes with https"),
        ("https://prometheus", None, token, "no certificates"),
        ("https://prometheus", None, tmp_path / "none", "no certificates"),
        ("https://prometheus", tmp_path / "none", None, "No such file"),
    ):
        with pytest.raises(CommandError, match=says) as caught:
            PrometheusClient(parse_url(url), token_file, ca_file)
        assert TOKEN not in str(caught.value)
