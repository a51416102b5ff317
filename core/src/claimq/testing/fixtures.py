"""The pytest fixture ``claimq_server``: ``pytest_plugins = ["claimq.testing.fixtures"]`` in conftest.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from claimq.address import variables
from claimq.testing.embedded_server import EmbeddedServer


@pytest.fixture
def claimq_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedServer]:
    """An empty server of the test's own. Its URL is in ``$CLAIMQ_REDIS_URL``, where ``claimq.connect()`` finds it."""
    with EmbeddedServer() as server:
        monkeypatch.setenv(variables.REDIS_URL, server.url)
        yield server
