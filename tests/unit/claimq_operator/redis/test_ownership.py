"""Which names on the server a queue may use, and what a queue without access gets."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from claimq_control.decide.observed import Observed
from claimq_control.decide.plan import Memory, plan
from claimq_control.fault import OWNED_BY_ANOTHER, Fault
from claimq_control.grants import Grants, QueueGrants
from claimq_kubernetes.queue_resource import QueueResource
from claimq_operator.redis.ownership import name_fault
from claimq_operator.settings import OperatorSettings

Queue = Callable[..., QueueResource]
Look = Callable[..., Observed]


def fault(queue: QueueResource, settings: OperatorSettings, *grants: tuple[str, str]) -> str:
    assert queue.spec is not None
    found = name_fault(queue, queue.spec, replace(settings, grants=QueueGrants(Grants(grants))))
    return "" if found is None else found.message


@pytest.mark.parametrize("name", ["media.thumbs", "media.other", "media.a.b"])
def test_names_that_begin_with_the_namespace_are_its_own(
    queue: Queue, settings: OperatorSettings, name: str
) -> None:
    assert fault(queue(queueName=name), settings) == ""


@pytest.mark.parametrize(
    "name", ["shop.orders", "media", "mediax.orders", "orders", "Media.orders", "media-2.orders"]
)
def test_other_names_need_a_setting_for_the_namespace(
    queue: Queue, settings: OperatorSettings, name: str
) -> None:
    made = queue(queueName=name)
    said = fault(made, settings, ("shop", "*"), ("med", name))
    assert "spec.queueName" in said
    assert f"media={name}" in said
    assert fault(made, settings, ("media", name)) == ""
    assert fault(made, settings, ("m*", name[:2] + "*")) == ""


def test_a_queue_without_access_gets_no_children_and_no_workers(observed: Look) -> None:
    denied = Fault("PasswordHostForbidden", "no", needs_action=True, denied=True)
    for replicas in (None, 0, 2):
        look = observed(replicas=replicas, unknown=True, scaling={"minReplicas": 3})
        decided = plan(replace(look, redis_fault=denied), Memory(), now=0.0, clock=0.0)
        assert (decided.applies, decided.replicas) == (False, None)
        stalled = next(one for one in decided.status["conditions"] if one["type"] == "Stalled")
        assert (stalled["status"], stalled["reason"]) == ("True", "PasswordHostForbidden")


def test_workers_of_a_queue_with_another_owner_are_removed(observed: Look) -> None:
    owned = Fault(OWNED_BY_ANOTHER, "no", needs_action=True, denied=True)
    look = replace(observed(replicas=2, unknown=True, scaling={"minReplicas": 3}), redis_fault=owned)
    decided = plan(look, Memory(), now=0.0, clock=0.0)
    assert (decided.applies, decided.replicas) == (False, 0)
