"""The client of the sidecar's socket. Needs nothing but the standard library, so an app's image needs nothing
else.

import claimq.worker

with claimq.worker.connect() as worker:
    for item in worker.items():
        with item:
            print(item.json())
"""

from __future__ import annotations

from claimq.worker.async_worker import AsyncItem, AsyncWorker, connect_async
from claimq.worker.errors import PayloadError, Refused, SidecarUnavailable, StoreUnavailable, WorkerError
from claimq.worker.values import Enqueued, NewItem, Outcome
from claimq.worker.worker import Item, Worker, connect

__all__ = [
    "AsyncItem",
    "AsyncWorker",
    "Enqueued",
    "Item",
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
