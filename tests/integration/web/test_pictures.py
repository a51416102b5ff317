"""Takes the pictures of README and docs/web.md, when CLAIMQ_SCREENSHOTS is set (`make pictures`)."""

import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

import claimq.blocking
from claimq.blocking import BlockingQueue
from claimq.model import NewItem
from testkit.repository.tree import ROOT
from testkit.servers.server import Server
from testkit.waiting import PATIENCE, eventually_sync
from testkit.web.browser import PATIENCE_MS

PLACE = ROOT / "docs/web"
SUPPORT = ROOT / "tests" / "support"
_SAMPLES = 20

pytestmark = pytest.mark.skipif(
    not os.environ.get("CLAIMQ_SCREENSHOTS"),
    reason="UNCHANGED: the pictures of the documentation are made on request",
)


def step_of(queue: BlockingQueue) -> Callable[[], int]:
    """Some traffic, a little more with each call. Returns the number of the call."""
    calls = itertools.count()

    def step() -> int:
        number = next(calls)
        clients = itertools.cycle(["acme", "umbrella", "hooli"])
        some = [NewItem({"image": f"{number}.png"}, client=next(clients)) for _ in range(number % 9)]
        if some:
            queue.enqueue_many(some)
        for claim in queue.claim(4 + number % 3, wait=0):
            queue.done(claim)
        return number

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
        names = ("media.thumbnails", "media.videos", "mail.outgoing")
        for name in names:
            fill(server.queue(name, worker=f"{name.rpartition('.')[2]}-6c9d-x7k2p"))
        eventually_sync(lambda: all(f"/queues/{name}" in page.get("/").text for name in names))
        step = step_of(server.queue("media.thumbnails", worker="thumbnails-6c9d-x7k2p"))

        def plotted() -> bool:
            number = step()
            text: str = page.get("/queues/media.thumbnails").text
            samples = text.partition('<path class="c1"')[2].partition("/>")[0].count("L")
            return min(number, samples) >= _SAMPLES

        eventually_sync(plotted)
        PLACE.mkdir(exist_ok=True)
        for name, path, scheme, width, height in (
            ("overview", "/", "light", 1100, 470),
            ("queue", "/queues/media.thumbnails", "light", 1000, 960),
            ("item", "/queues/media.thumbnails/item?id=cat", "dark", 700, 800),
        ):
            dark = scheme == "dark"
            tab = browser.new_page(
                color_scheme="dark" if dark else "light", viewport={"width": width, "height": height}
            )
            tab.goto(page.url.rstrip("/") + path, timeout=PATIENCE_MS)
            tab.screenshot(path=PLACE / f"{name}.png", timeout=PATIENCE_MS)
            tab.close()


MANIFEST = """
apiVersion: claimq.dev/v1alpha1
kind: ReliableQueue
metadata: {name: thumbnails}
spec:
  requeueLimit: 0
  worker: {command: ["python3", "worker.py"]}
  scaling: {maxReplicas: 4, itemsPerReplica: 10}
"""
WORKER = """
import time
import claimq.worker

with claimq.worker.connect() as worker:
    for item in worker.items():
        with item:
            time.sleep(0.5)
            if item.text.endswith("7.jpg"):
                raise OSError("image file is truncated")
"""


def test_picture_of_claimq_up(browser: Browser, tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    (folder / "queue.yaml").write_text(MANIFEST)
    (folder / "worker.py").write_text(WORKER)
    page = tmp_path / "up.html"
    words = [sys.executable, "-m", "testkit.web.picture_of_up", str(folder), str(page)]
    subprocess.run(words, check=True, timeout=PATIENCE, env={**os.environ, "PYTHONPATH": str(SUPPORT)})
    tab = browser.new_page(viewport={"width": 1000, "height": 700})
    tab.goto(page.as_uri(), timeout=PATIENCE_MS)
    tab.locator("pre").screenshot(path=ROOT / "docs" / "up.png", timeout=PATIENCE_MS)
