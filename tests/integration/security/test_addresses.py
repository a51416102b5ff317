"""Every way to reach a server: databases, Unix sockets, TLS with our own authority, client certificates."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

import claimq
from claimq import Verdict
from claimq.errors import ClaimqError, StoreMisused, StoreUnavailable
from testkit.plugin import ServerFactory
from testkit.servers.certificates import Certificates
from testkit.servers.patient import open_queue, open_server, patient
from testkit.servers.server import Server
from testkit.waiting import PATIENCE


async def works(settings: claimq.RedisSettings) -> bool:
    async with claimq.connect(settings=settings) as store:
        queue = store.queue("q", worker="w")
        await queue.enqueue(b"x")
        (claim,) = await queue.claim(wait=0)
        return [one.verdict for one in await queue.done(claim)] == [Verdict.DONE]


async def refusal(settings: claimq.RedisSettings) -> ClaimqError:
    with pytest.raises(ClaimqError) as caught:
        await works(settings)
    for _ in range(5):
        await asyncio.sleep(0)  # turns of the loop in which the sockets of refused handshakes are closed
    return caught.value


async def test_two_databases_of_one_server_know_nothing_of_each_other(server: Server) -> None:
    one, other = server.tcp_url, server.tcp_url.removesuffix("/0") + "/5"
    async with (
        open_server(one) as first,
        open_server(other) as second,
    ):
        await first.queue("q").enqueue(b"x")
        assert await second.queue("q").length() == 0
        await second.queue("q").enqueue_many([b"y", b"z"])
        assert (await first.queue("q").length(), await second.queue("q").length()) == (1, 2)


async def test_a_unix_url_has_its_database_too(server: Server) -> None:
    async with open_queue(f"unix://{server.unix_path}?db=3") as queue:
        await queue.enqueue(b"x")
    assert b"db3:" in bytes(str(server.call("INFO", "keyspace")), "ascii")
    assert await works(patient(server.url))


async def test_a_socket_that_is_not_there_is_named(tmp_path: Path) -> None:
    error = await refusal(claimq.RedisSettings(f"unix://{tmp_path}/nothing", retry_for=0.1))
    assert isinstance(error, StoreUnavailable)
    assert "no answer from the server" in str(error)


@pytest.fixture
def private(start_server: ServerFactory) -> tuple[Server, Certificates]:
    server = start_server("redis7", tls=True)
    assert server.certificates is not None
    return server, server.certificates


def tls_settings(
    server: Server, ca_file: Path | None, client: Certificates | None = None
) -> claimq.RedisSettings:
    return replace(
        patient(server.tcp_url, retry_for=0.3),
        ca_file=str(ca_file) if ca_file else None,
        cert_file=str(client.client_cert_file) if client else None,
        key_file=str(client.client_key_file) if client else None,
    )


async def test_tls_with_an_authority_of_our_own(private: tuple[Server, Certificates]) -> None:
    server, certificates = private
    assert await works(tls_settings(server, certificates.ca_file))


async def test_a_client_certificate_where_the_server_asks_for_one(
    private: tuple[Server, Certificates],
) -> None:
    server, certificates = private
    server.call("CONFIG", "SET", "tls-auth-clients", "yes")
    assert await works(tls_settings(server, certificates.ca_file, certificates))
    # The server says why and hangs up; now and then its end overtakes its reason, and the call is tried again.
    error = await refusal(replace(tls_settings(server, certificates.ca_file), retry_for=PATIENCE))
    assert isinstance(error, StoreMisused)
    assert "cert_file" in str(error)


async def test_the_wrong_authority_is_reported_as_such_at_once(
    private: tuple[Server, Certificates], tmp_path: Path
) -> None:
    server, _ = private
    others = Certificates(tmp_path)
    error = await refusal(tls_settings(server, others.ca_file))
    assert isinstance(error, StoreMisused)
    assert "certificate" in str(error)
    assert "ca_file" in str(error)


async def test_no_authority_means_those_of_the_system_which_do_not_know_ours(
    private: tuple[Server, Certificates],
) -> None:
    error = await refusal(tls_settings(private[0], None))
    assert isinstance(error, StoreMisused)
    assert "ca_file" in str(error)


async def test_a_server_under_another_name_than_its_certificate_is_refused(
    private: tuple[Server, Certificates],
) -> None:
    server, certificates = private
    settings = patient(f"rediss://127.1:{server.port}/0", retry_for=0.3)
    error = await refusal(replace(settings, ca_file=str(certificates.ca_file)))
    assert isinstance(error, StoreMisused)
    assert "certificate" in str(error)


async def test_plain_text_to_a_tls_port_is_no_hang(private: tuple[Server, Certificates]) -> None:
    settings = claimq.RedisSettings(private[0].tcp_url.replace("rediss", "redis"), retry_for=0.3)
    assert isinstance(await refusal(settings), StoreUnavailable)


async def test_tls_to_a_plain_port_is_no_hang(server: Server) -> None:
    settings = claimq.RedisSettings(
        server.tcp_url.replace("redis:", "rediss:"), retry_for=0.3, connect_timeout=0.3
    )
    assert isinstance(await refusal(settings), StoreUnavailable)  # the server waits for the end of a line


async def test_a_file_that_cannot_be_read_is_named(
    private: tuple[Server, Certificates], tmp_path: Path
) -> None:
    error = await refusal(tls_settings(private[0], tmp_path / "missing.pem"))
    assert isinstance(error, StoreMisused)
    assert "missing.pem" in str(error)


async def test_the_password_of_the_default_user(start_server: ServerFactory) -> None:
    server = start_server()
    server.call("CONFIG", "SET", "requirepass", "s3cret")
    with pytest.raises(Exception, match="NOAUTH"):
        server.call("GET", "x")
    right = replace(patient(server.url, retry_for=0.3), password="s3cret")
    assert await works(right)
    for wrong in (None, "no"):
        error = await refusal(replace(patient(server.url), password=wrong))
        assert isinstance(error, StoreMisused)
        assert "password" in str(error)
        assert "s3cret" not in str(error) + repr(right)
