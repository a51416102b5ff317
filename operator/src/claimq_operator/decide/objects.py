"""The objects of a queue in the cluster: as they are, and as its manifest asks for them. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from claimq_control.decide.plan import Plan
from claimq_control.fault import Fault
from claimq_kubernetes.port import DEPLOYMENTS, Json
from claimq_kubernetes.queue_resource import QueueResource
from claimq_operator.children.budget import budget
from claimq_operator.children.deployment import deployment as worker_deployment
from claimq_operator.children.restrictions import refused
from claimq_operator.settings import OperatorSettings


@dataclass(frozen=True, slots=True)
class Objects:
    """``deployment``: the worker Deployment as it is; None: it was not created yet."""

    resource: QueueResource
    deployment: Json | None = None
    children: tuple[Json, ...] = ()
    """The children as the manifest asks for them, without the number of workers."""
    left_out: tuple[str, ...] = ()
    """A sentence for each part that was not injected because the template has its own."""
    refusal: Fault | None = None
    """Why the children may not be applied."""

    def to_apply(self, plan: Plan) -> tuple[Json, ...]:
        """The children to apply if they differ from what was applied last. The number of workers is only in a
        Deployment to create: another field manager owns it afterwards."""
        if not plan.applies or self.deployment is not None:
            return self.children if plan.applies else ()
        return tuple(
            {**child, "spec": {**child["spec"], "replicas": plan.desired}}
            if child["kind"] == DEPLOYMENTS.kind
            else child
            for child in self.children
        )


def objects_of(resource: QueueResource, deployment: Json | None, settings: OperatorSettings) -> Objects:
    """The objects of a queue."""
    spec = resource.spec
    if spec is None:
        return Objects(resource, deployment)
    worker = worker_deployment(resource, spec, settings)
    message = refused(spec.worker.template, settings.workers_may)
    return Objects(
        resource,
        deployment,
        children=(worker.body, budget(resource, is_on=spec.worker.disruption_budget)),
        left_out=worker.left_out,
        refusal=Fault("TemplateForbidden", message, needs_action=True, denied=True) if message else None,
    )
