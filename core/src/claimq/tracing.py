"""Spans and trace context in programs that use OpenTelemetry (``claimq[otel]``), by its conventions for messaging.

A program that uses it has imported its API and set a tracer provider. In other programs this module imports and does
nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import lru_cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from claimq.arguments import several
from claimq.handler_verdicts import NotNow
from claimq.item_options import MAX_HEADERS, checked_headers
from claimq.model import NewItem

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, Tracer, TracerProvider

_ERROR_TYPE = "error.type"
_NAMED_IN_ENVIRONMENT = "OTEL_PYTHON_TRACER_PROVIDER" in os.environ


class Carrier(Protocol):
    """An item with the headers of its producer."""

    @property
    def id(self) -> str:
        """The item's id."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The item's headers."""
        ...


def is_active() -> bool:
    """Whether the program has set up tracing with OpenTelemetry."""
    api = sys.modules.get("opentelemetry.trace")
    if api is None or (getattr(api, "_TRACER_PROVIDER", api) is None and not _NAMED_IN_ENVIRONMENT):
        return False  # as get_tracer_provider() would show, which takes five times as long
    provider = getattr(api, "get_tracer_provider", None)  # which another thread may be importing
    return provider is not None and not isinstance(provider(), api.ProxyTracerProvider)


class Sending:
    """The enqueue of ``count`` items: a producer span from ``with`` to its end. ``queue``: None for several, or for one
    of unknown name."""

    __slots__ = ("_scope",)

    def __init__(self, queue: str | None, count: int) -> None:
        self._scope = _sending(queue, count) if is_active() else None

    def __enter__(self) -> Self:
        if self._scope is not None:
            self._scope.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._scope is not None:
            self._scope.__exit__(kind, error, trace)

    def carrying(self, items: Iterable[object]) -> Iterable[object]:
        """As the function :func:`carrying`."""
        return items if self._scope is None else carrying(items)

    def note_id(self, item_id: str) -> None:
        """Adds the id of the single item to the span."""
        if self._scope is not None:
            from opentelemetry.trace import get_current_span

            get_current_span().set_attribute("messaging.message.id", item_id)


@contextmanager
def _sending(queue: str | None, count: int) -> Generator[None]:
    from opentelemetry.trace import SpanKind

    operation: dict[str, str | int] = {"operation.name": "enqueue", "operation.type": "send"}
    if count > 1:
        operation["batch.message_count"] = count
    with _span(queue, operation, kind=SpanKind.PRODUCER) as span:
        try:
            yield
        except Exception as error:
            span.set_attribute(_ERROR_TYPE, type(error).__qualname__)
            raise


def carrying(items: Iterable[object]) -> Iterable[object]:
    """The payloads or new items with the present trace context in their headers. An item with a ``traceparent`` of its
    own keeps it; one without room for more headers stays as it is."""
    if not is_active() or not (context := _context_headers()):
        return items
    return [_carrying(item, context) for item in several("items", items)]


def _carrying(item: object, context: Mapping[str, str]) -> object:
    new = item if isinstance(item, NewItem) else NewItem(item)
    item_headers = {} if new.headers is None else checked_headers(new.headers)
    headers = {**context, **item_headers}
    if "traceparent" in item_headers or len(headers) > MAX_HEADERS:
        return item
    return replace(new, headers=headers)


def _context_headers() -> dict[str, str]:
    """The present context as headers, those that an item can have: baggage may be too long."""
    from opentelemetry.propagate import inject

    context: dict[str, str] = {}
    inject(context)
    headers: dict[str, str] = {}
    for name, value in context.items():
        try:
            headers |= checked_headers({name.lower(): value})
        except ValueError:
            continue
    return headers


class Processing:
    """The work on claimed items: a consumer span from ``with`` to its end. It continues the trace of a single item, and
    links to those of several."""

    __slots__ = ("_scope", "_span")

    def __init__(self, queue: str | None, items: Sequence[Carrier]) -> None:
        self._scope = _processing_span(queue, items) if is_active() else None
        self._span: Span | None = None

    def __enter__(self) -> Self:
        if self._scope is not None:
            self._span = self._scope.__enter__()
        return self

    def note(self, error: BaseException | None) -> None:
        """Records what ended the work, if that is a failure."""
        if self._span is None or not isinstance(error, Exception) or isinstance(error, NotNow):
            return
        from opentelemetry.trace import StatusCode

        self._span.record_exception(error)
        self._span.set_attribute(_ERROR_TYPE, type(error).__qualname__)
        self._span.set_status(StatusCode.ERROR, str(error))

    def __exit__(self, *error: object) -> None:
        if self._scope is not None:
            self._scope.__exit__(None, None, None)


def _processing_span(queue: str | None, items: Sequence[Carrier]) -> AbstractContextManager[Span]:
    from opentelemetry.propagate import extract
    from opentelemetry.trace import Link, SpanKind, get_current_span

    operation: dict[str, str | int] = {"operation.name": "process", "operation.type": "process"}
    if len(items) == 1:
        operation["message.id"] = items[0].id
        return _span(queue, operation, kind=SpanKind.CONSUMER, context=extract(items[0].headers))
    operation["batch.message_count"] = len(items)
    contexts = [get_current_span(extract(item.headers)).get_span_context() for item in items if item.headers]
    links = [Link(context) for context in contexts if context.is_valid]
    return _span(queue, operation, kind=SpanKind.CONSUMER, links=links)


def _span(
    queue: str | None,
    operation: Mapping[str, str | int],
    *,
    kind: Any,
    context: Context | None = None,
    links: Sequence[Link] = (),
) -> AbstractContextManager[Span]:
    from opentelemetry.trace import get_tracer_provider

    attributes = {f"messaging.{name}": value for name, value in operation.items()}
    attributes["messaging.system"] = "claimq"
    name = str(operation["operation.name"])
    if queue is not None:
        attributes["messaging.destination.name"] = queue
        name = f"{name} {queue}"
    tracer = _tracer(get_tracer_provider())
    return tracer.start_as_current_span(name, context, kind, attributes, links)


@lru_cache(maxsize=8)
def _tracer(provider: TracerProvider) -> Tracer:
    return provider.get_tracer("claimq", schema_url="https://opentelemetry.io/schemas/1.36.0")
