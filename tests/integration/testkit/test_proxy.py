"""The fault proxy: each fault does to a plain client what it says."""

import gc
import socket
import time
import warnings
from collections.abc import Iterator

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from testkit.faults.links import Request
from testkit.faults.proxy import FaultProxy
from testkit.servers.server import Server
from testkit.waiting import PATIENCE, eventually_sync

PUSH = "return redis.call('RPUSH', KEYS[1], ARGV[1])"


@pytest.fixture
def client(proxy: FaultProxy) -> Iterator[redis.Redis]:
    made = redis.Redis.from_url(proxy.url, socket_timeout=PATIENCE, retry=Retry(NoBackoff(), 0))
    yield made
    made.close()


@pytest.fixture
def hasty(proxy: FaultProxy) -> Iterator[redis.Redis]:
    """A client that is connected, for calls without a reply: it gives up after 0.3 s."""
    made = redis.Redis.from_url(proxy.url, socket_timeout=0.3, retry=Retry(NoBackoff(), 0))

    def is_connected() -> bool:
        try:
            return bool(made.ping())
        except redis.TimeoutError:
            return False

    eventually_sync(is_connected)
    yield made
    made.close()


def push(client: redis.Redis, value: str) -> None:
    client.eval(PUSH, 1, "list", value)


def test_a_proxy_in_good_weather_changes_nothing(client: redis.Redis, proxy: FaultProxy) -> None:
    big = "x" * 1_000_000
    pipeline = client.pipeline(transaction=False)
    for index in range(100):
        pipeline.set(f"key-{index}", big if index == 50 else index)
    assert all(pipeline.execute())
    assert client.get("key-50") == big.encode()
    assert proxy.count("set") == 100
    by_port = redis.Redis.from_url(proxy.tcp_url)
    assert by_port.get("key-7") == b"7"
    by_port.close()


@pytest.mark.parametrize("cut", [True, False])
def test_the_kth_reply_is_lost_after_the_command_was_carried_out(
    client: redis.Redis, hasty: redis.Redis, proxy: FaultProxy, valkey: Server, cut: bool
) -> None:
    fault = proxy.drop_reply(2, cut=cut)
    push(client, "a")
    with pytest.raises(redis.ConnectionError if cut else redis.TimeoutError):
        push(client if cut else hasty, "b")
    eventually_sync(lambda: valkey.call("LLEN", "list") == 2, why="the command was carried out")
    assert fault.hit is not None
    assert fault.hit.words[-1] == b"b"
    push(client, "c")
    assert valkey.call("LRANGE", "list", 0, -1) == [b"a", b"b", b"c"]


def test_a_command_cut_in_the_middle_never_happens(
    client: redis.Redis, proxy: FaultProxy, valkey: Server
) -> None:
    proxy.cut_request(1, after=10)
    with pytest.raises(redis.ConnectionError):
        push(client, "a")
    assert valkey.call("LLEN", "list") == 0
    push(client, "b")
    assert valkey.call("LLEN", "list") == 1


def test_a_fault_hits_only_what_it_is_meant_for(client: redis.Redis, proxy: FaultProxy) -> None:
    def is_get(request: Request) -> bool:
        return request.name == "GET"

    fault = proxy.drop_reply(1, matching=is_get)
    push(client, "a")
    assert fault.hit is None
    with pytest.raises(redis.ConnectionError):
        client.get("key")


def test_cut_connections_are_gone_and_new_ones_welcome(client: redis.Redis, proxy: FaultProxy) -> None:
    client.set("key", 1)
    proxy.cut()
    # The pool notices a dead connection before it uses it.
    assert client.get("key") == b"1"
    assert proxy.opened == 2


def test_requests_in_a_black_hole_arrive_when_it_heals(
    hasty: redis.Redis, proxy: FaultProxy, valkey: Server
) -> None:
    proxy.black_hole("requests")
    with pytest.raises(redis.TimeoutError):
        push(hasty, "late")
    assert valkey.call("LLEN", "list") == 0
    proxy.heal()
    eventually_sync(lambda: valkey.call("LLEN", "list") == 1)


def test_replies_in_a_black_hole_leave_the_command_done(
    hasty: redis.Redis, proxy: FaultProxy, valkey: Server
) -> None:
    proxy.black_hole("replies")
    with pytest.raises(redis.TimeoutError):
        push(hasty, "done")
    eventually_sync(lambda: valkey.call("LLEN", "list") == 1)


def test_a_ghost_still_takes_what_its_client_no_longer_waits_for(
    hasty: redis.Redis, proxy: FaultProxy, valkey: Server
) -> None:
    proxy.ghost()
    with pytest.raises(redis.TimeoutError):
        hasty.blmove("list", "taken", 600)
    hasty.close()
    eventually_sync(lambda: proxy.ghosts == 1)
    valkey.call("RPUSH", "list", "lost")
    eventually_sync(lambda: valkey.call("LLEN", "taken") == 1)
    proxy.heal()
    proxy.cut()
    eventually_sync(lambda: proxy.ghosts == 0)


def test_without_ghosts_the_server_forgets_a_client_that_went(
    hasty: redis.Redis, proxy: FaultProxy, valkey: Server
) -> None:
    with pytest.raises(redis.TimeoutError):
        hasty.blmove("list", "taken", 600)
    hasty.close()

    def no_client_waits() -> bool:
        info = valkey.call("INFO", "clients")
        assert isinstance(info, bytes)
        return b"blocked_clients:0" in info

    eventually_sync(no_client_waits)
    assert proxy.ghosts == 0


def test_a_refused_client_sees_a_server_that_is_down(client: redis.Redis, proxy: FaultProxy) -> None:
    client.ping()
    proxy.refuse()
    with pytest.raises(redis.ConnectionError):
        client.ping()
    proxy.heal()
    assert client.ping()


def test_a_slow_network_delays_both_directions_but_loses_nothing(proxy: FaultProxy) -> None:
    patient = redis.Redis.from_url(proxy.url, socket_timeout=PATIENCE)
    proxy.delay(0.2)
    sent_at = time.monotonic()
    push(patient, "a")
    assert time.monotonic() - sent_at >= 0.4
    assert patient.lrange("list", 0, -1) == [b"a"]
    patient.close()


def test_a_proxy_that_closes_while_clients_connect_leaves_no_socket(valkey: Server) -> None:
    def burst() -> None:
        proxy = FaultProxy(valkey.unix_path).start()
        clients = [socket.socket(socket.AF_UNIX) for _ in range(20)]
        for client in clients:
            client.connect(str(proxy.unix_path))
        proxy.close()
        for client in clients:
            client.close()

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", ResourceWarning)
        for _ in range(20):
            burst()
        gc.collect()
    assert [str(one.message) for one in seen] == []
