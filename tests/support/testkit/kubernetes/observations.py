"""Observations of a queue with other Deployments, and the children of a plan."""

from dataclasses import replace
from typing import Any, cast

from claimq_control.decide.observed import Observed
from claimq_control.decide.plan import Plan
from claimq_kubernetes.queue_resource import QueueResource
from claimq_operator.decide.objects import Objects, objects_of
from claimq_operator.decide.workers_state import workers_state
from claimq_operator.settings import OperatorSettings
from testkit.kubernetes.kubernetes_objects import Body, deployment_body


def deployed(look: Observed, deployment: Body | None = None, **fields: Any) -> Observed:
    """The observation with this Deployment, or with the one it has, and these fields in it."""
    body = (deployment_body(look.workers.replicas) if deployment is None else deployment) | fields
    objects = Objects(cast("QueueResource", look.resource), body)
    return replace(look, workers=workers_state(objects, look.workers.workers))


def with_workers(look: Observed, **fields: Any) -> Observed:
    """The observation with these fields in the state of its workers."""
    return replace(look, workers=replace(look.workers, **fields))


def children_of(look: Observed, plan: Plan, settings: OperatorSettings) -> tuple[Body, ...]:
    """The children that the plan applies."""
    return objects_seen(look, settings).to_apply(plan)


def objects_seen(look: Observed, settings: OperatorSettings) -> Objects:
    """The objects of the observed queue."""
    ordered = look.workers.ordered
    deployment = None if ordered is None else deployment_body(ordered)
    return objects_of(cast("QueueResource", look.resource), deployment, settings)
