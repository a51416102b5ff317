"""The library's block in README.md runs as it stands there."""

import contextlib
import io
import re

import pytest

from testkit.repository.tree import ROOT
from testkit.servers.patient import open_blocking_queue
from testkit.servers.server import Server


def test_the_block_of_the_readme_enqueues_works_and_is_done(
    valkey: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks: list[str] = re.findall(r"(?ms)^```python\n(.*?)^```", (ROOT / "README.md").read_text())
    (block,) = [block for block in blocks if "claimq.blocking" in block]
    monkeypatch.setenv("CLAIMQ_REDIS_URL", valkey.url)
    with contextlib.redirect_stdout(printed := io.StringIO()):
        exec(block, {})
    assert printed.getvalue() == "{'path': 'cat.png'}\n"
    with open_blocking_queue(valkey.url, "uploads") as queue:
        assert queue.stats()["done"] == 1
