"""API objects and observations for tests of the operator's pure modules."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from claimq.model import Snapshot, WorkerInfo
from claimq_control.decide.observed import Observed
from claimq_kubernetes.queue_resource import QueueResource, read_queue
from claimq_kubernetes.worker_pods import read_pods
from claimq_operator.decide.objects import objects_of
from claimq_operator.decide.workers_state import workers_state
from claimq_operator.settings import OperatorSettings
from testkit.kubernetes.kubernetes_objects import Body, deployment_body, snapshot

UID = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
def settings() -> OperatorSettings:
    return OperatorSettings(sidecar_image="registry.example/claimq-sidecar:1")


@pytest.fixture
def queue_body() -> Callable[..., Body]:
    """queue_body(scaling={...}, worker={...}) -> a queue's object with these fields in its spec."""

    def make(**spec: Any) -> Body:
        body: Body = {
            "apiVersion": "claimq.dev/v1alpha1",
            "kind": "ReliableQueue",
            "metadata": {
                "name": "thumbs",
                "namespace": "media",
                "uid": UID,
                "generation": 3,
                "resourceVersion": "7",
            },
            "spec": {"redis": {"url": "redis://redis:6379/0"}, "worker": {"image": "app:1"}},
        }
        worker = spec.pop("worker", {})
        body["spec"]["worker"] |= worker
        body["spec"] |= spec
        return copy.deepcopy(body)

    return make


@pytest.fixture
def queue(queue_body: Callable[..., Body]) -> Callable[..., QueueResource]:
    def make(**spec: Any) -> QueueResource:
        return read_queue(queue_body(**spec))

    return make


@pytest.fixture
def observed(queue: Callable[..., QueueResource], settings: OperatorSettings) -> Callable[..., Observed]:
    """observed(pods=[...], workers=[...], main=3, replicas=2, scaling={...}) -> one observation."""

    def make(
        *,
        pods: list[Body] | None = None,
        workers: list[WorkerInfo] | None = None,
        replicas: int | None = 0,
        main: int = 0,
        busy: int = 0,
        age: float | None = None,
        seen: Snapshot | None = None,
        unknown: bool = False,
        **spec: Any,
    ) -> Observed:
        resource = queue(**spec)
        objects = objects_of(resource, None if replicas is None else deployment_body(replicas), settings)
        return Observed(
            resource=resource,
            workers=workers_state(objects, read_pods(pods or [], workers or [], now=0.0)),
            snapshot=None if unknown else seen or snapshot(main, busy, age=age),
            claims=tuple(workers or ()),
        )

    return make
