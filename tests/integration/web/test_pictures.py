"""Takes the pictures of docs/web.md, when CLAIMQ_SCREENSHOTS is set (`make pictures`)."""

import itertools
import os
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Browser

import claimq.blocking
from claimq.blocking import BlockingQueue
from claimq.model import NewItem
from testkit.browser import PATIENCE_MS
from testkit.server import Server
from testkit.tree import ROOT
from testkit.waiting import eventually_sync

PLACE = ROOT / "docs/web"
_SAMPLES = 20

pytestmark = pytest.mark.skipif(
    not os.environ.get("CLAIMQ_SCREENSHOTS"),
    reason="UNCHANGED: the pictures of docs/web.md are made on request",
)


def step_of(queue: BlockingQueue) -> Callable[[], None]:
    """Some traffic, a little more with each call."""
    calls = itertools.count()

    def step() -> None:
        number = next(calls)
        clients = itertools.cycle(["acme", "umbrella", "hooli"])
        some = [NewItem({"image": f"{number}.png"}, client=next(clients)) for _ in range(number % 9)]
        if some:
            queue.enqueue_many(some)
        for claim in queue.claim(4 + number % 3, wait=0):
            queue.done(claim)

    return step


def fill(queue: BlockingQueue) -> None:
    queue.enqueue({"image": "cat.png", "sizes": [64, 256], "owner": {"id": 17}}, id="cat", client="acme")
    for claim in queue.claim(1, wait=0):
        detail = 'File "worker.py", line 12, in resize\n    image.load()'
        queue.fail(
            claim, error="OSError: image file is truncated (17 bytes not read)", detail=detail, permanent=True
        )
    queue.enqueue_many([NewItem("later.png", delay=3600), NewItem("next.png", client="hooli")])
    queue.claim(1, wait=0)
    queue.add_to_index()


def test_pictures_for_the_documentation(browser: Browser, start_page: Any, valkey: Server) -> None:
    with claimq.blocking.connect(valkey.url) as server:
        page = start_page()
        for name in ("media.thumbnails", "media.videos", "mail.outgoing"):
            fill(server.queue(name, worker=f"{name.rpartition('.')[2]}-6c9d-x7k2p"))
        step = step_of(server.queue("media.thumbnails", worker="thumbnails-6c9d-x7k2p"))

        def plotted() -> bool:
            step()
            text: str = page.get("/queues/media.thumbnails").text
            return text.partition('<path class="c1"')[2].partition("/>")[0].count("L") >= _SAMPLES

        eventually_sync(plotted)
        PLACE.mkdir(exist_ok=True)
        for name, path, scheme, width in (
            ("overview", "/", "light", 1100),
            ("queue", "/queues/media.thumbnails", "light", 1000),
            ("item", "/queues/media.thumbnails/item?id=cat", "dark", 700),
        ):
            dark = scheme == "dark"
            tab = browser.new_page(
                color_scheme="dark" if dark else "light", viewport={"width": width, "height": 800}
            )
            tab.goto(page.url.rstrip("/") + path, timeout=PATIENCE_MS)
            tab.screenshot(path=PLACE / f"{name}.png", timeout=PATIENCE_MS)
            tab.close()
