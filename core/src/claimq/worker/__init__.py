"""The client of the sidecar's socket. Needs nothing but the standard library, so an app's image needs nothing
else.

import claimq.worker

with claimq.worker.connect() as worker:
    for item in worker.items():
        with item:
            print(item.json())
"""

from __future__ import annotations

from claimq.worker.async_item import AsyncItem
from claimq.worker.async_worker import AsyncWorker, connect_async
from claimq.worker.errors import (
    ItemNotSettled,
    PayloadError,
    Refused,
    SidecarUnavailable,
    StoreUnavailable,
    WorkerError,
)
from claimq.worker.item import Item
from claimq.worker.values import Enqueued, NewItem, Outcome
from claimq.worker.worker import Worker, connect

__all__ = [
    "AsyncItem",
    "AsyncWorker",
    "Enqueued",
    "Item",
    "ItemNotSettled",
    "NewItem",
    "Outcome",
    "PayloadError",
    "Refused",
    "SidecarUnavailable",
    "StoreUnavailable",
    "Worker",
    "WorkerError",
    "connect",
    "connect_async",
]
