"""The client of the sidecar's socket. Needs nothing but the standard library.

import claimq.worker

with claimq.worker.connect() as worker:
    for item in worker.items():
        with item:
            print(item.json())
"""

from __future__ import annotations

from claimq.errors import PayloadError, StoreUnavailable
from claimq.model import Enqueued, EnqueuedItem, NewItem, Outcome, Verdict
from claimq.worker.async_worker import AsyncWorker, connect_async
from claimq.worker.errors import ItemNotSettled, Refused, SidecarUnavailable
from claimq.worker.item import AsyncItem, Item
from claimq.worker.worker import Worker, connect

__all__ = [
    "AsyncItem",
    "AsyncWorker",
    "Enqueued",
    "EnqueuedItem",
    "Item",
    "ItemNotSettled",
    "NewItem",
    "Outcome",
    "PayloadError",
    "Refused",
    "SidecarUnavailable",
    "StoreUnavailable",
    "Verdict",
    "Worker",
    "connect",
    "connect_async",
]
