"""Tests of programs that use claimq: a real server, a real sidecar, and assertions on what was enqueued.

    from claimq.testing import EmbeddedServer, assert_enqueued

    with EmbeddedServer() as server:
        queue = server.queue("thumbnails")
        queue.enqueue("cat.png")
        server.run_worker("thumbnails", main)      # until the queue is empty
        assert_enqueued(server.queue("previews"), "cat-small.png")

With pytest: ``pytest_plugins = ["claimq.testing.fixtures"]`` in conftest.py has the fixture ``claimq_server``.
"""

from claimq.testing.embedded_server import EmbeddedServer
from claimq.testing.items import assert_enqueued, make_item

__all__ = ["EmbeddedServer", "assert_enqueued", "make_item"]
