"""Corrects damaged keys as a user would: by the commands of the report."""

from claimq import ReliableQueue
from claimq.internals.operations import internals
from testkit.servers.server import Server


async def correct(queue: ReliableQueue, server: Server) -> int:
    """Runs the commands until nothing is reported; how many these were."""
    commands = 0
    while found := await internals(queue).damage():
        for one in found:
            server.call(*one.command)
        commands += len(found)
        assert commands < 5_000
    return commands
