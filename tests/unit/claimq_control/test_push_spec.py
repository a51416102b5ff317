"""``spec.worker.delivery`` and ``spec.worker.push``."""

from typing import Any

from claimq_control.manifest import PushSpec, parse_manifest


def pushes(**worker: Any) -> PushSpec | None:
    document = {
        "apiVersion": "claimq.dev/v1alpha1",
        "kind": "ReliableQueue",
        "metadata": {"name": "q"},
        "spec": {"redis": {"url": "redis://h"}, "worker": {"image": "a", **worker}},
    }
    return parse_manifest(document).spec.worker.pushes


def test_an_app_claims_its_items_unless_the_manifest_says_push() -> None:
    assert pushes() is None
    assert pushes(delivery="push") == pushes(delivery="push", push={}) == PushSpec()


def test_the_sidecar_gets_every_setting() -> None:
    push = {
        "port": 8080,
        "path": "/items",
        "mode": "batched",
        "batchSize": 4,
        "timeout": "5m",
        "probePath": "/up",
    }
    spec = pushes(delivery="push", concurrency=8, push={**push, "retryClientErrors": True})
    assert spec is not None
    assert spec.port == 8080
    assert spec.environment() == {
        "CLAIMQ_PUSH_PATH": "/items",
        "CLAIMQ_PUSH_MODE": "batched",
        "CLAIMQ_PUSH_BATCH_SIZE": "4",
        "CLAIMQ_PUSH_TIMEOUT": "5m",
        "CLAIMQ_PUSH_PROBE_PATH": "/up",
        "CLAIMQ_PUSH_RETRY_CLIENT_ERRORS": "true",
    }
