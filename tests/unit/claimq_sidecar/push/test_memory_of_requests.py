"""How long a request to the app uses the budget for claims."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from claimq.model import Claim, Item
from claimq_sidecar.claims.sidecar import Sidecar
from claimq_sidecar.memory import Budget, Share
from claimq_sidecar.push.pusher import Pusher
from claimq_sidecar.settings import PushSettings, RedisSource, SidecarSettings
from testkit.waiting import eventually

TOTAL = 1000


@pytest.mark.parametrize("size", [1, 16 * 1024 * 1024])
async def test_a_request_uses_it_until_the_app_has_read_it(tmp_path: Path, size: int) -> None:
    may_read, is_over = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if size > 1:
            await may_read.wait()
        with suppress(ConnectionError):
            while await reader.read(65536):
                pass
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        is_over.set()

    server = await asyncio.start_unix_server(serve, tmp_path / "app")
    push = PushSettings(port=None, socket=tmp_path / "app")
    source = RedisSource({"CLAIMQ_REDIS_URL": "redis://nowhere"})
    sidecar = Sidecar(SidecarSettings(source, "queue", "worker", tmp_path / "socket", push=push))
    pusher = Pusher(sidecar, push)
    pusher._gate.gone.clear()
    budget, share = Budget(TOTAL), Share()
    assert await share.take(budget, TOTAL, 0.0)
    item = Item(id="1", payload=bytes(size), enqueued_at=1.0, first_enqueued_at=1.0)
    pusher._send_all([Claim("w/7.abc", item, "w", 3.0, 33.5)], share)
    if size > 1:
        await eventually(lambda: len(pusher._tasks) == 0)
        assert share.size == TOTAL
        may_read.set()
    await eventually(lambda: share.size == 0)
    assert pusher._pace.in_progress == 1
    pusher._connections.close()
    await is_over.wait()
    server.close()
    await server.wait_closed()
    pusher._gate.gone.set()
    await sidecar.store.close()
