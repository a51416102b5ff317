"""The pages of failed items, some of which are large."""

from claimq_web.queues import queue_pages
from testkit.servers.patient import open_queue
from testkit.servers.server import Server


async def test_a_later_page_is_read_from_its_own_beginning(valkey: Server) -> None:
    async with open_queue(valkey.url, worker="w") as queue:
        for size, count in ((1_000_000, 45), (10, 52), (1_000_000, 3)):
            await queue.enqueue_many(["x" * size] * count)
            while claims := await queue.claim(10, wait=0):
                await queue.fail(claims, "no", permanent=True)
        pages = [await queue_pages.failed(queue, {"page": number}) for number in ("1", "2")]
        assert [len(page["items"]) for page in pages] == [50, 9]
        assert [page["reasons"] for page in pages] == [{"no": 100}] * 2
