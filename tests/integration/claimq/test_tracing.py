"""Spans and trace context with OpenTelemetry."""

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import claimq
import claimq.worker
from claimq import Done, Item, NewItem, ReliableQueue, Requeue, tracing
from testkit.queues.retries import retrying_at_once
from testkit.servers.patient import open_blocking_queue
from testkit.servers.server import Server
from testkit.workers.sidecars import StartSidecar


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """The spans that have ended in this test. A provider can be set once and not be removed, and other tests need none:
    so its variable is set."""
    assert not tracing.is_active()  # although the API is imported
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return exporter


def ended(spans: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in spans.get_finished_spans() if span.name == name]


def attributes(span: ReadableSpan) -> Mapping[str, Any]:
    return dict(span.attributes or {})


def parent_of(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent else None


def own_id(span: ReadableSpan) -> int:
    own = span.get_span_context()
    assert own is not None
    return own.span_id


async def test_an_item_takes_the_trace_from_its_producer_to_its_handler(
    queue: ReliableQueue, spans: InMemorySpanExporter
) -> None:
    async def handler(item: Item) -> None:
        with trace.get_tracer("app").start_as_current_span("work"):
            await queue.enqueue("next", client="c")

    with trace.get_tracer("app").start_as_current_span("request") as request:
        enqueued = await queue.enqueue("a", headers={"own": "1"})
    await queue.consume(handler, max_items=1)
    first, second = ended(spans, "enqueue q")
    (process,) = ended(spans, "process q")
    (work,) = ended(spans, "work")
    assert attributes(first) == {
        "messaging.system": "claimq",
        "messaging.operation.name": "enqueue",
        "messaging.operation.type": "send",
        "messaging.destination.name": "q",
        "messaging.message.id": enqueued.id,
    }
    assert attributes(process) == {
        "messaging.system": "claimq",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "q",
        "messaging.message.id": enqueued.id,
    }
    assert (first.kind, process.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert [parent_of(span) for span in (first, process, work, second)] == [
        request.get_span_context().span_id, own_id(first), own_id(process), own_id(work),
    ]  # fmt: skip
    (item,) = await queue.peek()
    assert f"{own_id(second):016x}" in item.headers["traceparent"]


@pytest.mark.parametrize(
    ("error", "status"), [(ValueError("broken"), StatusCode.ERROR), (Requeue(), StatusCode.UNSET)]
)
async def test_only_a_failure_of_a_handler_is_an_error_of_its_span(
    queue: ReliableQueue, spans: InMemorySpanExporter, error: Exception, status: StatusCode
) -> None:
    def handler(_: Item) -> None:
        raise error

    await queue.enqueue("a")
    await queue.consume(handler, max_items=1)
    (process,) = ended(spans, "process q")
    assert process.status.status_code is status
    assert attributes(process).get("error.type") == ("ValueError" if status is StatusCode.ERROR else None)
    assert [event.name for event in process.events] == (["exception"] if status is StatusCode.ERROR else [])


async def test_a_batch_has_one_span_with_links(queue: ReliableQueue, spans: InMemorySpanExporter) -> None:
    await queue.enqueue("a")
    await queue.enqueue_many(
        ["b", NewItem("c", headers={"traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01"})]
    )
    await queue.consume(lambda _: None, process_all=True, chunk=3, max_items=3)
    one, two = ended(spans, "enqueue q")
    (process,) = ended(spans, "process q")
    assert attributes(two)["messaging.batch.message_count"] == 2
    assert attributes(process)["messaging.batch.message_count"] == 3
    assert [link.context.span_id for link in process.links] == [own_id(one), own_id(two), int("2" * 16, 16)]


async def test_items_of_a_step_carry_the_context_of_the_caller(
    store: claimq.Server, queue: ReliableQueue, spans: InMemorySpanExporter
) -> None:
    await queue.enqueue("a")
    (claim,) = await queue.claim(wait=0)
    with trace.get_tracer("app").start_as_current_span("work") as work:
        await queue.done([Done(claim, ["b"])])
        await store.enqueue({"q": ["c"]})
    (last,) = ended(spans, "enqueue q")[1:]
    ids = [item.headers["traceparent"].split("-")[2] for item in await queue.peek(2)]
    assert ids == [f"{work.get_span_context().span_id:016x}", f"{own_id(last):016x}"]


async def test_a_refused_enqueue_is_an_error_of_its_span(
    queue: ReliableQueue, spans: InMemorySpanExporter
) -> None:
    with pytest.raises(claimq.ItemTooLarge):
        await queue.enqueue(b"x" * 2_000_000)
    (span,) = ended(spans, "enqueue q")
    assert (span.status.status_code, attributes(span)["error.type"]) == (StatusCode.ERROR, "ItemTooLarge")


async def test_headers_of_the_producer_and_what_has_no_room_win_over_context(
    queue: ReliableQueue, spans: InMemorySpanExporter
) -> None:
    own = {"traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01"}
    many = {f"h{number}": "" for number in range(16)}
    for user, items in (("x" * 2000, ["a", NewItem("b", headers=many)]), ("1", [NewItem("c", headers=own)])):
        token = context.attach(baggage.set_baggage("user", user))
        try:
            await queue.enqueue_many(items)
        finally:
            context.detach(token)
    assert len(spans.get_finished_spans()) == 2
    first, second, third = await queue.peek(3)
    assert list(first.headers) == ["traceparent"]
    assert (second.headers, third.headers) == (many, own)


def test_the_worker_client_and_threads_keep_the_trace(
    start_sidecar: StartSidecar, valkey: Server, spans: InMemorySpanExporter
) -> None:
    sidecar = start_sidecar(valkey.url)
    with (
        open_blocking_queue(valkey.url) as queue,
        claimq.worker.connect(sidecar.socket) as worker,
    ):
        queue.set_policy(retrying_at_once())
        with trace.get_tracer("app").start_as_current_span("request") as request:
            queue.enqueue("a")
        (item,) = worker.claim()
        with item:
            worker.enqueue("b")
            item.done(enqueue=["c"])
        (failing,) = worker.claim()
        with failing:
            raise ValueError("broken")
        after = trace.get_current_span().get_span_context()
        headers = [item.headers for item in queue.peek(9)]
    first, second = ended(spans, "enqueue q")
    process, failed = ended(spans, "process q")
    assert [parent_of(span) for span in (first, process, second, failed)] == [
        request.get_span_context().span_id, own_id(first), own_id(process), own_id(second),
    ]  # fmt: skip
    assert (process.status.status_code, failed.status.status_code) == (StatusCode.UNSET, StatusCode.ERROR)
    assert {one["traceparent"].split("-")[2] for one in headers} == {
        f"{own_id(process):016x}", f"{own_id(second):016x}",
    }  # fmt: skip
    assert not after.is_valid


WITHOUT_THE_PACKAGE = """
import asyncio, sys
sys.modules["opentelemetry"] = None  # each import of it is an error
import claimq, claimq.worker
async def main():
    async with claimq.connect(sys.argv[1]) as server:
        queue = server.queue("q")
        await queue.enqueue_many(["a", "b"])
        print((await queue.consume(lambda item: None, max_items=2)).done)
asyncio.run(main())
"""


def test_without_the_package_nothing_of_it_is_imported(valkey: Server) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_THE_PACKAGE, valkey.url], capture_output=True, text=True, check=True
    )
    assert done.stdout == "2\n"
