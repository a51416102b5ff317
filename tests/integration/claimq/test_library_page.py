"""The first block of docs/operations.md runs as it stands there."""

import asyncio
import contextlib
import io
import re
import textwrap
from typing import Any

import pytest

from testkit.repository.tree import ROOT
from testkit.servers.patient import open_blocking_queue
from testkit.servers.server import Server


def test_the_first_block_of_the_page_enqueues_claims_and_ends_an_item(
    valkey: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    (block,) = re.findall(r"(?ms)^```python\nimport claimq\n(.*?)^```", page)
    names: dict[str, Any] = {}
    exec("import claimq\n\nasync def main():\n" + textwrap.indent(block, "    "), names)
    monkeypatch.setenv("CLAIMQ_REDIS_URL", valkey.url)
    with contextlib.redirect_stdout(printed := io.StringIO()):
        asyncio.run(names["main"]())
    assert printed.getvalue() == "{'path': 'cat.png'}\n"
    with open_blocking_queue(valkey.url, "thumbnails") as queue:
        assert queue.stats()["done"] == 1
