"""What the pages of one queue show: the summary, and its items in each state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import claimq
from claimq.model import Located, State
from claimq.waiting.reasons import waiting_counts
from claimq.waiting.texts import pause_text
from claimq_admin.reads.decisions import decision_rows
from claimq_admin.reads.documents import Json
from claimq_admin.reads.queue_reads import SHOWN_PAYLOAD, attention, status_of
from claimq_admin.text import count
from claimq_control.worker_counts import ready_text
from claimq_kubernetes.port import part
from claimq_web.curves.curves import curves_of, latest_rates, plots_of
from claimq_web.curves.overview import PAGE, Page, notes_of, positive, warnings_of
from claimq_web.curves.samples import Ring, Sample, mean_seconds
from claimq_web.queues.queues import Queues

_MOST_SEARCHED = 1000
_MOST_CLIENTS = 50
_MOST_WORKERS = 100
MOST_RECORDS = 200
_RECENT_SECONDS = 300.0


async def summary(
    queue: claimq.ReliableQueue,
    sample: Sample,
    ring: Ring | None,
    decision: Json,
    command: Callable[[str], str],
) -> Json:
    """Lengths, rates, times, plots, workers and the scaling decision. ``command``: as for :func:`attention`."""
    snapshot, workers = await status_of(queue)
    sentence = attention(snapshot, command)
    samples = samples_of(sample, ring)
    last_minutes = [earlier for earlier in samples if earlier.at >= sample.at - _RECENT_SECONDS]
    target = target_of(decision)
    return {
        "sample": sample,
        "warnings": [
            words for words in warnings_of(sample, target, len(workers)) if not sentence.startswith(words)
        ],
        "attention": sentence,
        "pauses": [
            (pause, f"{pause_text(pause)}: {count(pause.items)} wait")
            for pause in snapshot.pauses
            if not pause.is_of_queue
        ],
        "waiting": waiting_counts(snapshot),
        "rates": latest_rates(samples),
        "mean_waiting": mean_seconds(last_minutes, "main"),
        "mean_busy": mean_seconds(last_minutes, "busy"),
        "target": target,
        "plots": plots_of(curves_of(samples)),
        "workers": workers[:_MOST_WORKERS],
        "worker_count": len(workers),
        "busy_workers": sum(worker.busy > 0 for worker in workers),
        "decision": decision,
        "decision_rows": decision_rows(decision),
    }


def target_of(decision: Mapping[str, Any]) -> float | None:
    """The target of the age of waiting items in seconds, if the decision has it."""
    target_age = decision.get("targetAge")
    return float(target_age) if isinstance(target_age, int | float) else None


def notes(
    queues: Queues, name: str, ring: Ring | None, decision: Mapping[str, Any], live_workers: int
) -> Sequence[str]:
    """The notes on a queue in the list."""
    if ring is None or ring.latest is None:
        return ()
    warnings = warnings_of(ring.latest, target_of(decision), live_workers)
    return notes_of(warnings, ring.note, queues.status(name))


def noted(
    queues: Queues, rings: Mapping[str, Ring | None], names: Iterable[str], decisions: Mapping[str, Json]
) -> Collection[str]:
    """Those of the queues that have a note, as far as it takes no read of their workers."""
    return {name for name in names if notes(queues, name, rings.get(name), decisions.get(name, {}), 1)}


def ready_workers(status: Mapping[str, Any]) -> str:
    """How many workers of a ReliableQueue are ready; empty if its status has no numbers."""
    workers = part(status, "workers")
    ready, desired = workers.get("ready"), workers.get("desired")
    return ready_text(ready, desired) if isinstance(ready, int) and isinstance(desired, int) else ""


def samples_of(sample: Sample, ring: Ring | None) -> Sequence[Sample]:
    """Our samples of a queue; the last one is ``sample``."""
    return ring.samples() if ring is not None else [sample]


async def waiting(queue: claimq.ReliableQueue, query: Mapping[str, str]) -> Json:
    """A page of the items in main in claim order, of all clients or of one, and the clients."""
    client = query.get("client") or None
    clients = await queue.clients()
    length = await queue.length() if client is None else await queue.client_length(client)
    page = _page(query, length)
    items = await queue.items(
        State.MAIN, page.end - page.begin, offset=page.begin, client=client, payload_limit=SHOWN_PAYLOAD
    )
    return {
        "client": client,
        "clients": clients[:_MOST_CLIENTS],
        "client_count": len(clients),
        **_rows(items, page, client=client or ""),
    }


async def busy(queue: claimq.ReliableQueue, _: Mapping[str, str]) -> Json:
    """The longest claims."""
    snapshot = await queue.snapshot()
    items = await queue.longest_claims(PAGE, payload_limit=SHOWN_PAYLOAD)
    return {"items": items, "length": snapshot.lengths[State.BUSY], "now": snapshot.now}


async def delayed(queue: claimq.ReliableQueue, query: Mapping[str, str]) -> Json:
    """A page of the delayed items, the next one due first."""
    snapshot = await queue.snapshot()
    page = _page(query, snapshot.lengths[State.DELAYED])
    items = await queue.items(
        State.DELAYED, page.end - page.begin, offset=page.begin, payload_limit=SHOWN_PAYLOAD
    )
    return {"now": snapshot.now, **_rows(items, page)}


async def failed(queue: claimq.ReliableQueue, query: Mapping[str, str]) -> Json:
    """A page of the failed items, latest failure first, and the reasons of all of them.

    A reason in the query selects among the latest items, since no call reads all failed items.
    """
    reasons = await queue.failed_reasons()
    total = sum(reasons.values())
    reason = query.get("reason", "")
    latest = await _newest_failed(queue, _MOST_SEARCHED) if reason else []
    matching = [located for located in latest if located.item.failed_reason == reason]
    page = _page(query, len(matching) if reason else total)
    if reason:
        items = matching[page.begin : page.end]
    else:
        items = await _newest_failed(queue, page.end - page.begin, page.begin)
    return {
        "total": total,
        "reasons": reasons,
        "reason": reason,
        "searched_count": len(latest),
        **_rows(items, page, reason=reason),
    }


async def _newest_failed(queue: claimq.ReliableQueue, count: int, offset: int = 0) -> list[Located]:
    return await queue.items(
        State.FAILED, count, offset=offset, newest_first=True, payload_limit=SHOWN_PAYLOAD
    )


def _page(query: Mapping[str, str], total: int) -> Page:
    """The selected page of a list, without those of its rows that were shown before (``skip``)."""
    text = query.get("skip", "")
    skip = int(text) if text.isascii() and text.isdigit() and len(text) < 3 and int(text) < PAGE else 0
    return Page.of(positive(query.get("page", "")), total, skip)


def _rows(items: Sequence[Located], page: Page, **fields: str) -> Json:
    """The rows of a page, and the queries of links to other pages. ``rest`` is that of a page that ends early because
    its items are large, else empty. ``fields`` : of these queries."""
    link, shown = _link(**fields), page.begin + len(items)
    is_cut = shown < min(page.end, page.total) and any(row.payload_size is not None for row in items)
    rest = f"{link(page.number)}&skip={PAGE - (page.end - shown)}" if is_cut else ""
    return {"items": items, "page": page, "page_link": link, "rest": rest}


def _link(**fields: str) -> Callable[[int], str]:
    """Makes the query of a link to another page of the same list."""
    kept = {name: value for name, value in fields.items() if value}
    return lambda number: "?" + urlencode({**kept, "page": number})


READ = {"waiting": waiting, "busy": busy, "delayed": delayed, "failed": failed}
"""The pages of a queue's items by the last part of their path."""
