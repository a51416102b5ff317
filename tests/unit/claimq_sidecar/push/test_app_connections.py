"""Connections to the app: which one the next request uses."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from claimq_sidecar.push.app_connections import IDLE_SECONDS, AppConnections


@pytest.fixture
async def connections(tmp_path: Path) -> AsyncGenerator[AppConnections]:
    server = await asyncio.get_running_loop().create_unix_server(asyncio.Protocol, str(tmp_path / "s"))
    made = AppConnections(None, tmp_path / "s")
    yield made
    made.close()
    server.close()


async def test_the_connection_that_was_used_last_is_used_again(connections: AppConnections) -> None:
    first, second = await connections.open(), await connections.open()
    connections.give_back(first)
    connections.give_back(second)
    assert connections.take() is second
    assert connections.take() is first
    assert connections.take() is None


async def test_one_that_was_idle_for_long_is_closed_instead(connections: AppConnections) -> None:
    idle = await connections.open()
    connections.give_back(idle)
    idle.idle_since -= IDLE_SECONDS
    assert connections.take() is None
    assert not idle.is_open
