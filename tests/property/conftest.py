"""The loop in which the machines call the servers."""

import asyncio
from collections.abc import Iterator

import pytest


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner
