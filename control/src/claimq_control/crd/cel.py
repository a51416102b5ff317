"""CEL rules between fields, for the API server. Each has the code of its twin in claimq_control.manifest.rules."""

from __future__ import annotations

from claimq.limits import MOST_OF_KEY
from claimq_control.crd.cel_redis import REDIS_RULES
from claimq_control.crd.cel_rule import CelRule, joined
from claimq_control.manifest.parsing import LONGEST_LABEL, LONGEST_NAME
from claimq_control.manifest.pod_template import RESERVED_CONTAINERS, RESERVED_VOLUMES
from claimq_control.manifest.rules import (
    LARGEST_PAYLOAD,
    SET_BY_CLAIMQ,
    SIDECAR_BASE,
    SIDECAR_LEAST_PAYLOAD,
    SIDECAR_PER_BYTE,
)
from claimq_process.names import APP_CONTAINER, GRACE_MARGIN, HEALTH_PORT, PREFIX

_SIDECAR_MEMORY = "quantity(string(self.sidecar.resources.limits['memory'])).asApproximateFloat()"
_PAYLOAD = "quantity(string(self.maxPayload)).asApproximateFloat()"

_PORT = f"(has(self.sidecar) && has(self.sidecar.port) ? self.sidecar.port : {HEALTH_PORT})"
_POD = "self.worker.template.spec"


def _sidecar_port(containers: str, *, only: str = "") -> CelRule:
    """No container in this list listens on the port of the sidecar. ``only``: exempts containers."""
    return CelRule(
        "sidecar-port",
        f"!has(self.worker.template) || !has({_POD}) || !has({_POD}.{containers})"
        f" || {_POD}.{containers}.all(c, {only}!has(c.ports) || c.ports.all(p, p.containerPort != {_PORT}"
        " || (has(p.protocol) && p.protocol != 'TCP')))",
        "has the sidecar's own port in the pod; choose another, or set spec.sidecar.port",
        f".worker.template.spec.{containers}",
    )


SPEC_RULES = (
    CelRule(
        "push-port",
        f"!has(self.worker.push) || !has(self.worker.push.port) || self.worker.push.port != {_PORT}",
        "is the sidecar's own port in the pod; choose another, or set spec.sidecar.port",
        ".worker.push.port",
    ),
    _sidecar_port("containers"),
    _sidecar_port("initContainers", only="!has(c.restartPolicy) || c.restartPolicy != 'Always' || "),
    CelRule(
        "payload-within-memory",
        "!has(self.sidecar) || !has(self.sidecar.resources) || !has(self.sidecar.resources.limits)"
        " || !('memory' in self.sidecar.resources.limits) || !has(self.maxPayload)"
        " || !isQuantity(string(self.sidecar.resources.limits['memory'])) || !isQuantity(string(self.maxPayload))"
        f" || {_PAYLOAD} > {LARGEST_PAYLOAD}.0"  # the field's own rule reports that
        f" || ({_SIDECAR_MEMORY} >= {SIDECAR_BASE}.0 + {SIDECAR_PER_BYTE}.0 * {_PAYLOAD}"
        f" && {_SIDECAR_MEMORY} >= {SIDECAR_BASE + SIDECAR_PER_BYTE * SIDECAR_LEAST_PAYLOAD}.0)",
        "does not fit the sidecar's memory: it needs 64Mi and 32 times maxPayload; lower maxPayload, or raise "
        "sidecar.resources.limits.memory",
        ".maxPayload",
    ),
    CelRule(
        "immutable",
        "has(self.queueName) == has(oldSelf.queueName) && (!has(self.queueName) || self.queueName == "
        "oldSelf.queueName)",
        "cannot be changed: the items are stored under the old name; make a new ReliableQueue and "
        "delete this one",
        ".queueName",
    ),
    CelRule(
        "lease-within-processing-timeout",
        "!has(self.processingTimeout) || duration(self.processingTimeout) >= duration(self.busyExpiry)",
        "is below busyExpiry: an item over its time would stay claimed until the lease ends; raise "
        "processingTimeout to busyExpiry or more, or lower busyExpiry",
        ".processingTimeout",
        joined(
            "is ",
            "=self.processingTimeout",
            ", below busyExpiry (",
            "=self.busyExpiry",
            "): an item over its time would stay claimed until the lease ends; raise processingTimeout to ",
            "=self.busyExpiry",
            " or more, or lower busyExpiry to ",
            "=self.processingTimeout",
            " or less",
        ),
    ),
)

RETRY_RULES = (
    CelRule(
        "retry-delay-order",
        "duration(self.initial) <= duration(self.max)",
        "is over max; lower initial or raise max",
        ".initial",
        joined("is ", "=self.initial", ", over max (", "=self.max", "); lower initial or raise max"),
    ),
)

FAILED_RULES = (
    CelRule(
        "failed-counts-need-times",
        "!has(self.requeue) || !has(self.requeue.maxFailCount) || has(self.requeue.minAge)",
        "does nothing without minAge; give minAge, the time after which failed items are sent back, or "
        "remove maxFailCount",
        ".requeue.maxFailCount",
    ),
    CelRule(
        "failed-counts-need-times",
        "!has(self.remove) || !has(self.remove.minFailCount) || has(self.remove.minAge)"
        " || self.remove.match == 'Either'",
        "does nothing without minAge; give minAge, the age at which failed items are removed, or match: Either to "
        "remove by the count alone, or remove minFailCount",
        ".remove.minFailCount",
    ),
    CelRule(
        "failed-removed-before-requeued",
        "!has(self.requeue) || !has(self.requeue.minAge) || !has(self.remove) || !has(self.remove.minAge)"
        " || (self.remove.match == 'Both' && has(self.remove.minFailCount) && self.remove.minFailCount > 1)"
        " || duration(self.remove.minAge) > duration(self.requeue.minAge)",
        "is not above requeue.minAge: failed items would be removed before they are sent back; raise "
        "remove.minAge, lower requeue.minAge, or give remove.minFailCount with match: Both",
        ".remove.minAge",
    ),
    CelRule(
        "failed-removed-before-requeued",
        "!has(self.requeue) || !has(self.requeue.minAge) || !has(self.remove) || self.remove.match != 'Either'"
        " || !has(self.remove.minFailCount) || self.remove.minFailCount > 1",
        "with match: Either removes every failed item before it is sent back; give 2 or more, or match: Both",
        ".remove.minFailCount",
    ),
)

_LIMIT_RULES = (
    CelRule(
        "rate-or-busy",
        "has(self.rate) != has(self.busy)",
        "has both or neither of rate and busy; give one of them",
    ),
    CelRule(
        "rate-or-busy",
        "!has(self.burst) || has(self.rate) || !has(self.busy)",
        "does nothing without rate; give rate, or remove burst",
        ".burst",
    ),
    CelRule(
        "rate-or-busy",
        "!has(self.busy) || !has(self.per) || self.per != 'key' || (has(self.unit) && self.unit == 'cost') || "
        f"self.busy <= {MOST_OF_KEY}",
        f"is too high, and per is key; give at most {MOST_OF_KEY}",
        ".busy",
    ),
)

SCALING_RULES = (
    CelRule(
        "min-over-max",
        "self.minReplicas <= self.maxReplicas",
        "is over maxReplicas; lower minReplicas or raise maxReplicas",
        ".minReplicas",
    ),
    CelRule(
        "replicas-by-mode",
        "self.mode != 'Manual' || has(self.replicas)",
        "is missing; mode is Manual: give the number of workers",
        ".replicas",
    ),
    CelRule(
        "replicas-by-mode",
        "self.mode != 'Auto' || !has(self.replicas)",
        "is set, but mode is Auto, which decides by itself; set mode: Manual to give a number, or use "
        "minReplicas and maxReplicas and remove replicas",
        ".replicas",
    ),
)

WORKER_RULES = (
    CelRule(
        "push-needs-delivery",
        "!has(self.push) || self.delivery == 'push'",
        "does nothing with delivery: pull; set delivery: push, or remove push",
        ".push",
    ),
    CelRule(
        "push-batch",
        "!has(self.push) || self.push.batchSize == 1 || self.push.mode == 'batched'",
        "is over 1, but only mode batched has several items in a request; set mode: batched, or remove batchSize",
        ".push.batchSize",
    ),
    CelRule(
        "push-batch",
        "!has(self.push) || self.push.mode != 'batched' || self.push.batchSize <= self.concurrency",
        "is over worker.concurrency, the limit on all items that the app has at a time; raise concurrency, or lower "
        "batchSize",
        ".push.batchSize",
    ),
    CelRule(
        "drain-within-grace",
        "!has(self.template) || !has(self.template.spec) || "
        "!has(self.template.spec.terminationGracePeriodSeconds)"
        " || duration(self.drainTimeout).getMilliseconds() <= "
        "self.template.spec.terminationGracePeriodSeconds * 1000",
        "is longer than the pod's grace period in template.spec.terminationGracePeriodSeconds, so the "
        f"app would be killed with items in progress; raise the grace period to drainTimeout and {GRACE_MARGIN} "
        "seconds or more, remove it (it then follows from drainTimeout), or lower drainTimeout",
        ".drainTimeout",
        joined(
            "is ",
            "=self.drainTimeout",
            ", longer than the pod's grace period in template.spec.terminationGracePeriodSeconds, so the app would be "
            f"killed with items in progress; raise the grace period to {GRACE_MARGIN} seconds more than drainTimeout, "
            "remove it (it then follows from drainTimeout), or lower drainTimeout",
        ),
    ),
    CelRule(
        "template-pod",
        "!has(self.template) || !has(self.template.spec) || !has(self.template.spec.containers)"
        f" || self.template.spec.containers.all(c, !(c.name in {list(RESERVED_CONTAINERS)!r}))",
        f"{RESERVED_CONTAINERS[0]} is the container that claimq adds; choose another name",
        ".template.spec.containers",
    ),
    CelRule(
        "template-pod",
        "!has(self.template) || !has(self.template.spec) || !has(self.template.spec.initContainers)"
        f" || self.template.spec.initContainers.all(c, !(c.name in {list(RESERVED_CONTAINERS)!r}))",
        f"{RESERVED_CONTAINERS[0]} is the container that claimq adds; choose another name",
        ".template.spec.initContainers",
    ),
    CelRule(
        "template-pod",
        "!has(self.template) || !has(self.template.spec) || !has(self.template.spec.containers)"
        f" || self.template.spec.containers.all(c, c.name != '{APP_CONTAINER}' || !(has(c.image) || has(c.command)"
        " || has(c.args) || has(c.env) || has(c.envFrom) || has(c.resources)))",
        "sets image, command, args, env, envFrom or resources of the app container; set those of spec.worker instead",
        ".template.spec.containers",
    ),
    CelRule(
        "template-pod",
        "!has(self.template) || !has(self.template.spec) || !has(self.template.spec.containers)"
        f" || self.template.spec.containers.all(c, c.name != '{APP_CONTAINER}' || !has(c.restartPolicy)"
        " || c.restartPolicy == 'Always')",
        "sets another restartPolicy than Always for the app container; workers are restarted: remove it",
        ".template.spec.containers",
    ),
    CelRule(
        "template-pod",
        "!has(self.template) || !has(self.template.spec) || !has(self.template.spec.volumes)"
        f" || self.template.spec.volumes.all(v, !(v.name in {list(RESERVED_VOLUMES)!r}))",
        f"{' and '.join(RESERVED_VOLUMES)} are the volumes that claimq adds; choose another name",
        ".template.spec.volumes",
    ),
)

_OVER = (
    "name in self.limits && isQuantity(string(self.requests[name])) && isQuantity(string(self.limits[name]))"
    " && quantity(string(self.requests[name])).isGreaterThan(quantity(string(self.limits[name])))"
)
_RESOURCES = CelRule(
    "requests-within-limits",
    f"!has(self.requests) || !has(self.limits) || self.requests.all(name, !({_OVER}))",
    "is over the limit of the same name; lower the request or raise the limit",
    ".requests",
)

_ENTRY_RULES = (
    CelRule(
        "env-names",
        "!(has(self.value) && has(self.valueFrom))",
        "has both value and valueFrom; keep one of them",
    ),
)


def _reserved(kind: str) -> CelRule:
    fix = f"which claimq keeps for its own {kind}; choose another prefix"
    return CelRule(
        "template-metadata",
        f"self.all(key, !key.startsWith('{PREFIX}'))",
        f"a key begins with {PREFIX}, {fix}",
    )


OBJECT_RULES: dict[str, tuple[CelRule, ...]] = {
    "spec": SPEC_RULES,
    "spec.redis": REDIS_RULES,
    "spec.retryDelay": RETRY_RULES,
    "spec.failedItems": FAILED_RULES,
    "spec.limits[]": _LIMIT_RULES,
    "spec.scaling": SCALING_RULES,
    "spec.worker": WORKER_RULES,
    "spec.worker.env[]": _ENTRY_RULES,
    "spec.worker.resources": (_RESOURCES,),
    "spec.sidecar.resources": (_RESOURCES,),
}
"""Rules of an object, by its path."""

FIELD_RULES: dict[str, tuple[CelRule, ...]] = {
    "spec.worker.env[].name": (
        CelRule(
            "env-names",
            f"!(self in {list(SET_BY_CLAIMQ)!r})",
            f"is one of {', '.join(SET_BY_CLAIMQ)}, which claimq sets itself; remove it",
        ),
    ),
    "spec.worker.template.metadata.labels": (_reserved("labels"),),
    "spec.worker.template.metadata.labels{}": (
        CelRule(
            "template-metadata",
            f"self.size() <= {LONGEST_LABEL}",
            f"has more than {LONGEST_LABEL} characters, which no label may have; shorten it",
        ),
    ),
    "spec.worker.template.metadata.annotations": (_reserved("annotations"),),
}
"""Rules of a single field, by its path; ``{}`` stands for each value of a map."""

ROOT_RULES = (
    CelRule(
        "name-length",
        f"self.metadata.name.size() <= {LONGEST_NAME}",
        f"metadata.name has at most {LONGEST_NAME} characters, so that the names of the pods fit into a "
        f"label; shorten it",
    ),
    CelRule(
        "name-form",
        "!self.metadata.name.contains('.')",
        "metadata.name has lower-case letters, digits and '-' only; it becomes part of the pods' names",
    ),
)
"""Rules of the whole object."""
