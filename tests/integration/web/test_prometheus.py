"""The plots of a queue with the curves of a real Prometheus, whose samples are the metrics of queues."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

import claimq.blocking
from claimq.model import COUNTERS, Snapshot, State
from claimq_spec.queue_metrics import QueueMetrics
from testkit import debian, tiers
from testkit.patient import patient
from testkit.prometheus import Prometheus, programs
from testkit.server import Server
from testkit.waiting import eventually_sync

MINUTE = 60
FIRST_POD, SECOND_POD = range(-240, -100), range(-140, 1)
"""Minutes in which two operators, one after the other, export the queue. In between, both do."""
UNKNOWN, LONG = range(-200, -180), range(-130, -110)
"""Minutes in which there was no operator, and in which 300 items waited."""
PER_SECOND = 2


@pytest.fixture(scope="module", autouse=True)
def prometheus_is_there() -> None:
    try:
        programs()
    except debian.PackageMissing as error:
        pytest.skip(f"{tiers.MISSING}prometheus: {error}")


def snapshot(minute: int) -> Snapshot:
    """What an operator read at a minute before now."""
    waiting = 300 if minute in LONG else 7
    count = (minute - FIRST_POD[0]) * MINUTE * PER_SECOND
    return Snapshot(
        now=0.0,
        seq=1,
        lengths=dict.fromkeys(State, 0) | {State.MAIN: waiting},
        ages=dict.fromkeys(State, None) | {State.MAIN: 12.0},
        counters=dict.fromkeys(COUNTERS, 0) | {"enqueued": count, "done": count},
        next_due_in=None,
        paused=False,
    )


def history(now: int) -> str:
    """The samples of both operators as OpenMetrics."""
    lines: list[str] = []
    for pod, minutes in (("a", FIRST_POD), ("b", SECOND_POD)):
        metrics = QueueMetrics()
        for minute in minutes:
            if minute in UNKNOWN:
                continue
            metrics.set_queue(("media", "thumbs"), snapshot(minute), {"desired": 3, "ready": 2, "busy": 1})
            at = now + minute * MINUTE
            lines += [
                line.replace("{", f'{{pod="{pod}",', 1) + f" {at}"
                for line in metrics.render().decode().splitlines()
                if line.startswith("claimq_queue_") and 'name="thumbs"' in line
            ]
    # All samples of a metric must follow each other.
    return "".join(f"{line}\n" for line in sorted(lines, key=lambda line: line.partition("{")[0])) + "# EOF\n"


@pytest.fixture
def page_and_prometheus(valkey: Server, start_page: Any) -> Iterator[tuple[Any, Prometheus]]:
    """A page that was just started, with queues of a few items, and a Prometheus that knows the last hours of one."""
    with claimq.blocking.connect(settings=patient(valkey.url)) as server:
        for name in ("media.thumbs", "media.others", "mail"):
            queue = server.queue(name)
            queue.enqueue_many(["a", "b"])
            queue.add_to_index()
        now = int(queue.snapshot().now)
    with Prometheus({}, history(now)) as prometheus:
        yield start_page("--prometheus", prometheus.url), prometheus


def plots(text: str) -> dict[str, str]:
    """The plots of a page by their titles, with all of their text."""
    found = re.findall(r"<figure>\s*<figcaption>([^<]*) <.*?</figure>", text, re.DOTALL)
    parts = re.findall(r"<figure>.*?</figure>", text, re.DOTALL)
    return dict(zip(found, parts, strict=True))


def test_a_page_has_the_curves_of_the_hours_before_its_start(
    page_and_prometheus: tuple[Any, Prometheus],
) -> None:
    page, prometheus = page_and_prometheus

    def shown(query: str = "") -> dict[str, str]:
        text = page.get(f"/queues/media.thumbs{query}").text
        assert "The plots are from Prometheus." in text
        return plots(text)

    found = eventually_sync(shown)
    assert [*found] == ["Items", "Age of the oldest waiting item", "Items per second", "Workers"]
    assert "main now 2; busy now 0; delayed now 0; highest 300" in found["Items"]
    assert "highest 12 s" in found["Age of the oldest waiting item"]
    assert "highest 2/s" in found["Items per second"]
    assert "desired now 3; ready now 2; busy now 1; highest 3" in found["Workers"]
    main = re.findall(r'<path class="c1" d="([^"]*)"', found["Items"])[0]
    assert (main.count("M"), main.count("L") > 120) == (2, True), "four hours with a gap"
    last_hour = eventually_sync(lambda: shown("?hours=1"))
    assert "highest 7" in last_hour["Items"]

    prometheus.kill()

    def own() -> str:
        text: str = page.get("/queues/media.thumbs?hours=24").text
        assert text.count('<svg class="plot"') == 3
        assert "Prometheus cannot be reached. The plots have the samples of this page." in text
        return text

    text = eventually_sync(own)
    assert '; highest 2"' in plots(text)["Items"]


def test_a_queue_without_series_has_the_samples_of_the_page(
    page_and_prometheus: tuple[Any, Prometheus],
) -> None:
    page, _ = page_and_prometheus

    def note(queue: str, reason: str) -> bool:
        text: str = page.get(f"/queues/{queue}").text
        assert f"{reason}. The plots have the samples of this page." in text
        return text.count('<svg class="plot"') == 3

    eventually_sync(lambda: note("mail", "its name is not NAMESPACE.NAME of a ReliableQueue"))
    no_data = "Prometheus has no data of this queue from the last 10 minutes"
    eventually_sync(lambda: note("media.others", no_data))
