"""The metrics of local mode: those that the operator exports of its queues, and those of all sidecars."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from claimq_cli.local.queue_runner import QueueRunner
from claimq_cli.local.sidecar_metrics import merged
from claimq_cli.local.status import status
from claimq_cli.local.worker import Worker
from claimq_spec.manifest import Manifest
from claimq_spec.queue_metrics import CONTENT_TYPE, QUEUE_LABELS, QueueKey, QueueMetrics


class MetricsPage:
    """Renders the page from what the last pass over each queue observed: it reads no server."""

    def __init__(self, runners: Sequence[QueueRunner]) -> None:
        self._runners = runners
        self._asking = asyncio.Lock()

    async def render(self) -> tuple[bytes, str]:
        """The page and its content type. A sidecar that does not answer within two seconds is left out."""
        workers = [(runner, worker) for runner in self._runners for worker in runner.workers.values()]
        async with self._asking:  # requests at the same time ask the sidecars one after another
            pages = await asyncio.gather(*(worker.sidecar_metrics() for _, worker in workers))
        labels = [_labels(runner, worker) for runner, worker in workers]
        of_sidecars = merged(zip(labels, pages, strict=True))
        metrics = QueueMetrics()
        for runner in self._runners:
            _add(metrics, runner)
        return metrics.render() + of_sidecars.encode(), CONTENT_TYPE


def _key(manifest: Manifest) -> QueueKey:
    """The labels that the operator would give the queue of the manifest."""
    return manifest.namespace, manifest.name


def _labels(runner: QueueRunner, worker: Worker) -> dict[str, str]:
    key = _key(runner.manifest)
    return {**dict(zip(QUEUE_LABELS, key, strict=True)), "worker": worker.name}


def _add(metrics: QueueMetrics, runner: QueueRunner) -> None:
    seen = runner.observation()
    if seen is None:
        return
    key = _key(runner.manifest)
    metrics.set_queue(key, seen.snapshot, seen.worker_counts)
    metrics.set_status(key, status(seen), seen.spec.scaling.target_age)
    metrics.set_scaling(key, seen.decision)
    for rule, count in runner.rules.items():
        metrics.decisions.labels(*key, rule).inc(count)
    for reason, count in runner.given_back.items():
        metrics.released.labels(*key, reason).inc(count)
