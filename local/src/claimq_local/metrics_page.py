"""The metrics of local mode: those that the operator exports of its queues, and those of all sidecars."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from claimq.concurrency.background_work import spawn
from claimq_control.queue_metrics import CONTENT_TYPE, QUEUE_LABELS, QueueMetrics
from claimq_local.queue_runner import QueueRunner
from claimq_local.workers.sidecar_metrics import merged
from claimq_local.workers.worker import Worker


class MetricsPage:
    """Renders the page from what the last pass over each queue observed: it reads no server."""

    def __init__(self, runners: Sequence[QueueRunner], metrics: QueueMetrics) -> None:
        """``metrics``: those of the queues."""
        self._runners = runners
        self._metrics = metrics
        self._asking: asyncio.Task[str] | None = None

    async def render(self) -> tuple[bytes, str]:
        """The page and its content type. A sidecar that does not answer within two seconds is reported as missing."""
        if self._asking is None or self._asking.done():
            self._asking = spawn(self._of_sidecars(), name="metrics of sidecars")
        # Requests at the same time share the answers, so that one sidecar that hangs delays none by more than that.
        of_sidecars = await asyncio.shield(self._asking)
        return self._metrics.render() + of_sidecars.encode(), CONTENT_TYPE

    async def _of_sidecars(self) -> str:
        workers = [(runner, worker) for runner in self._runners for worker in runner.workers.values()]
        pages = await asyncio.gather(*(worker.sidecar_metrics() for _, worker in workers))
        return merged(zip([_labels(*pair) for pair in workers], pages, strict=True))


def _labels(runner: QueueRunner, worker: Worker) -> dict[str, str]:
    manifest = runner.manifest
    labels = dict(zip(QUEUE_LABELS, (manifest.namespace, manifest.name), strict=True))
    return {**labels, "worker": worker.name}
