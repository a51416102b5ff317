"""What the pages of one queue show: the summary, and its items in each state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import claimq
from claimq.model import Located, State
from claimq_admin.reads.decisions import decision_rows
from claimq_admin.reads.queue_reads import (
    items_within_bytes,
    live_workers,
    longest_claims,
    newest_failed,
    workers_of,
)
from claimq_admin.selection.item_filter import groups_of, reason_of
from claimq_control.worker_counts import ready_text
from claimq_kubernetes.port import part
from claimq_web.curves.curves import curves_of, latest_rates, plots_of
from claimq_web.curves.overview import PAGE, Page, positive, warnings_of
from claimq_web.curves.samples import Ring, Sample, mean_seconds
from claimq_web.queues.queues import Json

_MOST_GROUPED = 1000
_MOST_CLIENTS = 50
_MOST_WORKERS = 100
MOST_RECORDS = 200
_RECENT_SECONDS = 300.0


async def summary(queue: claimq.ReliableQueue, sample: Sample, ring: Ring | None, decision: Json) -> Json:
    """Lengths, rates, times, plots, workers and the scaling decision."""
    workers = live_workers(await workers_of(queue), sample.at)
    samples = samples_of(sample, ring)
    last_minutes = [earlier for earlier in samples if earlier.at >= sample.at - _RECENT_SECONDS]
    target = target_of(decision)
    return {
        "sample": sample,
        "warnings": warnings_of(sample, target, len(workers)),
        "rates": latest_rates(samples),
        "mean_waiting": mean_seconds(last_minutes, "main", "claimed_count"),
        "mean_busy": mean_seconds(last_minutes, "busy", "claimed_count"),
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
    page = Page.of(positive(query.get("page", "")), length)
    end = min(page.begin + PAGE, length)
    items, is_cut = await items_within_bytes(queue, State.MAIN, page.begin, end, client=client)
    return {
        "page_link": _link(client=client or ""),
        "client": client,
        "clients": clients[:_MOST_CLIENTS],
        "client_count": len(clients),
        "items": items,
        "is_cut": is_cut,
        "page": page,
    }


async def busy(queue: claimq.ReliableQueue, _: Mapping[str, str]) -> Json:
    """The longest claims."""
    snapshot = await queue.snapshot()
    length = snapshot.lengths[State.BUSY]
    return {"items": await longest_claims(queue, PAGE, length), "length": length, "now": snapshot.now}


async def delayed(queue: claimq.ReliableQueue, query: Mapping[str, str]) -> Json:
    """A page of the delayed items, the next one due first."""
    snapshot = await queue.snapshot()
    length = snapshot.lengths[State.DELAYED]
    page = Page.of(positive(query.get("page", "")), length)
    end = min(page.begin + PAGE, length)
    items, is_cut = await items_within_bytes(queue, State.DELAYED, page.begin, end)
    return {"page_link": _link(), "items": items, "is_cut": is_cut, "page": page, "now": snapshot.now}


async def failed(queue: claimq.ReliableQueue, query: Mapping[str, str]) -> Json:
    """A page of the failed items, latest failure first, and the reasons of the latest of them.

    A reason in the query selects among the items that were grouped, since no call reads all failed items.
    """
    total = await queue.length(State.FAILED)
    grouped, _ = await newest_failed(queue, total, 0, _MOST_GROUPED)
    reason, page_number = query.get("reason", ""), positive(query.get("page", ""))
    items: list[Located]
    if reason:
        matching = [located for located in grouped if reason_of(located) == reason]
        page, is_cut = Page.of(page_number, len(matching)), False
        items = matching[page.begin : page.begin + PAGE]
    else:
        page = Page.of(page_number, total)
        items, is_cut = await newest_failed(queue, total, page.begin, PAGE)
    return {
        "page_link": _link(reason=reason),
        "total": total,
        "grouped_count": len(grouped),
        "groups": groups_of(grouped)[:_MOST_CLIENTS],
        "reason": reason,
        "items": items,
        "is_cut": is_cut,
        "page": page,
    }


def _link(**fields: str) -> Callable[[int], str]:
    """Makes the query of a link to another page of the same list."""
    kept = {name: value for name, value in fields.items() if value}
    return lambda number: "?" + urlencode({**kept, "page": number})


READ = {"waiting": waiting, "busy": busy, "delayed": delayed, "failed": failed}
"""The pages of a queue's items by the last part of their path."""
