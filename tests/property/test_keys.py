"""Keys that users pause, apps close and limits hold back, in both orders, with all that claims and ends do to items of
keys: none starts that must not or overtakes another, all start that may, and in the end each was done once.

A failure is shown as it was found.
"""

import asyncio

import pytest

from testkit.properties.any_operations import search
from testkit.properties.items_of_keys import Keys
from testkit.servers.server import Server


@pytest.mark.timeout(3600)
def test_items_of_keys_start_as_they_may_and_each_is_done_once(
    server: Server, runner: asyncio.Runner
) -> None:
    search(Keys, server, runner, examples=40, steps=40, shrinks=False)
