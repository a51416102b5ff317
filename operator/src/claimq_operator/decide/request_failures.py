"""Requests for a queue's objects that the API server does not accept, as the conditions report them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum

from claimq_control.fault import Fault
from claimq_kubernetes.port import ClusterError, NamespaceEnding, Refused

REPORT_SECONDS = 30.0
"""How long the same request must fail before it is reported, if the API server may accept it later."""


class NotOurs(Refused):
    """An object that the queue does not own has the name of a child. It is never changed."""


class Step(Enum):
    """A step of a pass that sends requests. The value is the effect while its requests fail."""

    FINALIZER = "spec.deletionPolicy has no effect"
    DEPLOYMENT = "the worker Deployment does not get the fields of this queue"
    BUDGET = "the workers have no current PodDisruptionBudget"
    COSTS = "the deletion costs of the worker pods cannot be set, so no idle worker is removed"
    REPLICAS = "the number of workers cannot be changed"


class RequestFailures:
    """The steps of one queue whose requests fail, and since when."""

    def __init__(self) -> None:
        self._failures: dict[Step, ClusterError] = {}
        self._since: dict[Step, float] = {}

    def update(self, failures: Mapping[Step, ClusterError], now: float) -> None:
        """Replaces the failures by those of the latest pass. ``now``: monotonic seconds."""
        self._failures = dict(failures)
        self._since = {step: self._since.get(step, now) for step in failures}

    def fault(self, now: float) -> Fault | None:
        """The first refused request, or the requests that have failed for :data:`REPORT_SECONDS`; else None."""
        for step, error in self._failures.items():
            if isinstance(error, Refused):
                return _refused(step, error)
        lasting = [step for step in self._failures if now - self._since[step] >= REPORT_SECONDS]
        if not lasting:
            return None
        effects = " and ".join(step.value for step in lasting)
        message = (
            f"{effects}: the API server has not accepted the request for {REPORT_SECONDS:g} s "
            f"({self._failures[lasting[0]]}); repair what its words name, such as an admission webhook"
        )
        return Fault("ApiRequestsFail", message, needs_action=True)


_DENIED = re.compile("denied (the )?request|is forbidden: (?!User )")
"""Words of an admission policy, webhook or quota, as opposed to those of a missing permission."""
_POD = "spec.worker.template.spec"
_FIELDS: tuple[tuple[str, str], ...] = (
    ("template[./]metadata[./]labels", "spec.worker.template.metadata.labels"),
    ("template[./]metadata[./]annotations", "spec.worker.template.metadata.annotations"),
    ("label", "spec.worker.deployment.labels (of the pods: spec.worker.template.metadata.labels)"),
    (
        "annotation",
        "spec.worker.deployment.annotations (of the pods: spec.worker.template.metadata.annotations)",
    ),
    (
        "resources|limits|requests|memory|cpu",
        "spec.worker.resources and spec.sidecar.resources (of other containers: spec.worker.template)",
    ),
    (
        "image|registry|registries|digest",
        "spec.worker.image, spec.sidecar.image or the operator's sidecar image",
    ),
    ("probe", f"{_POD}.containers (of the app: the entry with the name worker)"),
    (
        "securitycontext|runas|rootfilesystem|capabilit|privilege",
        f"securityContext in {_POD} or its containers",
    ),
    ("replicas", "spec.scaling"),
)
"""Words in a denial of the Deployment, and the fields of the manifest that they are about."""


def _mending(step: Step, words: str) -> str:
    """The fix for a request that a policy denies."""
    if "exceeded quota" in words:
        return "raise the quota of the namespace"
    exempt = "or exempt the objects of claimq from the policy"
    if step is Step.BUDGET:
        return f"set spec.worker.disruptionBudget: false, {exempt}"
    if step is not Step.DEPLOYMENT:
        return exempt.removeprefix("or ")
    for pattern, field in _FIELDS:
        if re.search(pattern, words, re.IGNORECASE):
            return f"correct {field}, {exempt}"
    return f"correct spec.worker.deployment or spec.worker.template, {exempt}"


def _refused(step: Step, error: Refused) -> Fault:
    if isinstance(error, NotOurs):
        return Fault("ChildNotOurs", str(error), needs_action=True)
    if isinstance(error, NamespaceEnding):
        return Fault(
            "Forbidden", f"{step.value}: {error}; wait until the namespace is deleted", needs_action=True
        )
    if denials := list(_DENIED.finditer(str(error))):
        fix = _mending(step, str(error)[denials[-1].end() :])
        return Fault("DeniedByPolicy", f"{step.value}: {error}; {fix}", needs_action=True)
    if error.forbidden:
        fix = "grant the operator the permission"
        return Fault("Forbidden", f"{step.value}: {error}; {fix}", needs_action=True)
    fix = "correct spec.worker.template" if step is Step.DEPLOYMENT else "remove the policy that rejects it"
    return Fault("ChildInvalid", f"{step.value}: {error}; {fix}", needs_action=True)
