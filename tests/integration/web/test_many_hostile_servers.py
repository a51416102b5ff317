"""Servers that tenants control cannot fill the page's memory together."""

from typing import Any

from testkit.faults.hostile_server import NOW, STALLED, Answer, Encoded, encoded, peak_beside
from testkit.programs.peak_memory import limit_of_the_chart
from testkit.waiting import eventually
from testkit.web.page_memory import owner_of

SERVERS, PAGES = 40, 2
PAGE_OF_WORKERS = Encoded(encoded(["x" * 15_000_000, str(NOW), 1]))


class HostileServers:
    """Each answers with large pages of workers, and stalls after some."""

    def __init__(self) -> None:
        self.sent_count = 0

    def answers(self, number: int) -> dict[str, Answer]:
        asked = 0

        def workers(_: list[bytes]) -> Any:
            nonlocal asked
            asked += 1
            if asked % (PAGES + 1) == 0:
                return STALLED
            self.sent_count += 1
            return PAGE_OF_WORKERS

        return {
            "workers": workers,
            "HGET": lambda words: owner_of(number) if b"owner" in words else "1",
            "EXISTS": lambda _: 1,
        }


async def test_many_hostile_servers_leave_the_page_below_its_limit() -> None:
    servers = HostileServers()
    peak = await peak_beside(
        servers.answers,
        SERVERS,
        "testkit.web.page_memory",
        until=lambda: eventually(lambda: servers.sent_count >= 2 * SERVERS),
    )
    assert peak < limit_of_the_chart("web")
