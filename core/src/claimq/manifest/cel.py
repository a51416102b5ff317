"""What must hold between fields, in CEL, for the API server. Each rule carries the code of its "
"twin in :mod:`claimq.manifest.rules`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from claimq.manifest.parsing import LONGEST_NAME
from claimq.manifest.rules import (
    APP_CONTAINER,
    GRACE_MARGIN,
    RESERVED_CONTAINERS,
    RESERVED_PREFIX,
    SOCKET_VARIABLE,
)


@dataclass(frozen=True, slots=True)
class CelRule:
    """One validation. ``field`` is the path below the object to which the API server attributes the mistake."""

    code: str
    rule: str
    message: str
    field: str = ""

    def to_schema(self) -> dict[str, Any]:
        """As an entry of ``x-kubernetes-validations``."""
        entry = {"rule": self.rule, "message": self.message}
        return entry | ({"fieldPath": self.field} if self.field else {})


_URL = "has(self.url)"

REDIS_RULES = (
    CelRule(
        "one-address",
        "!(has(self.url) && has(self.secretRef))",
        "has both url and secretRef; keep one of them and remove the other",
    ),
    CelRule(
        "one-address",
        "has(self.url) || has(self.secretRef)",
        "has neither url nor secretRef; give one of them",
    ),
    CelRule(
        "no-password-in-url",
        f"!{_URL} || !(self.url.matches('^[a-z+]+://[^@]*:[^@]*@') || self.url.contains('password='))",
        "holds a password, which everyone who may read this object would see; remove it from the url "
        "and name a Secret in "
        "passwordSecretRef, or put the whole url in a Secret and name that in secretRef",
        ".url",
    ),
    CelRule(
        "no-password-in-url",
        f"!{_URL} || !has(self.user) || !self.url.matches('^[a-z+]+://[^@/]+@')",
        "is given in the url as well; remove one of the two",
        ".user",
    ),
    CelRule(
        "url-form",
        f"!{_URL} || self.url.startsWith('unix:') || !self.url.matches('^[a-z+]+://([^@]*@)?(/|$|[?]|,|:)')",
        "has an empty host; write redis://host:6379/0",
        ".url",
    ),
    CelRule(
        "url-form",
        f"!{_URL} || !self.url.startsWith('unix:') || self.url.matches('^unix://[^?]*/[^?/]+')",
        "has no path of a socket; write unix:///path/to/socket?db=0",
        ".url",
    ),
    CelRule(
        "url-form",
        f"!{_URL} || self.url.startsWith('unix:') || "
        f"self.url.matches('^[a-z+]+://([^@]*@)?([^:/?,]+|\\\\[[0-9a-fA-F:.]+\\\\])(:[0-9]+)?"
        "(,([^:/?,]+|\\\\[[0-9a-fA-F:.]+\\\\])(:[0-9]+)?)*([/?].*)?$')",
        "has an address that is not HOST:PORT; write redis://host:6379/0, and brackets around an IPv6 address",
        ".url",
    ),
    CelRule(
        "url-form",
        f"!{_URL} || !self.url.matches('^rediss?[+]sentinel://') || "
        f"self.url.matches('^[a-z+]+://[^/]+/[^/?]+')",
        "names no master; write redis+sentinel://host:26379,host:26379/master/0",
        ".url",
    ),
    CelRule(
        "url-form",
        f"!{_URL} || self.url.startsWith('unix:') || "
        f"self.url.matches('^rediss?([+]cluster)?://[^/]+(/[0-9]*)?/?([?].*)?$')"
        " || self.url.matches('^rediss?[+]sentinel://[^/]+/[^/?]*(/[0-9]*)?/?([?].*)?$')",
        "has a database that is not a number; write one like /0",
        ".url",
    ),
    CelRule(
        "one-topology",
        "!(has(self.sentinel) && has(self.cluster) && self.cluster)",
        "is set and cluster is true; a server is one or the other: remove one of them",
        ".sentinel",
    ),
    CelRule(
        "one-topology",
        f"!has(self.sentinel) || !{_URL} || self.url.matches('^rediss?://')",
        "goes with a url of redis:// or rediss:// only; correct the url or remove sentinel",
        ".sentinel",
    ),
    CelRule(
        "one-topology",
        f"!(has(self.cluster) && self.cluster) || !{_URL} || self.url.matches('^rediss?([+]cluster)?://')",
        "goes with a url of redis://, rediss:// or redis+cluster:// only; correct the url or remove cluster",
        ".cluster",
    ),
    CelRule(
        "one-topology",
        f"!{_URL} || !((has(self.cluster) && self.cluster) || self.url.matches('^rediss?[+]cluster://'))"
        " || !self.url.matches('^[a-z+]+://[^/]+/0*[1-9][0-9]*/?([?].*)?$')",
        "names a database; a cluster has only 0: remove it from the url",
        ".url",
    ),
    CelRule(
        "tls-needs-rediss",
        f"!has(self.tls) || !{_URL} || self.url.startsWith('rediss')",
        "is set, but the url makes no TLS connection; begin the url with rediss://, or remove tls",
        ".tls",
    ),
)

SPEC_RULES = (
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
        "processingTimeout to busyExpiry or "
        "more, or lower busyExpiry",
        ".processingTimeout",
    ),
)

RETRY_RULES = (
    CelRule(
        "retry-delay-order",
        "duration(self.initial) <= duration(self.max)",
        "is over max; lower initial or raise max",
        ".initial",
    ),
)

FAILED_RULES = (
    CelRule(
        "failed-counts-need-times",
        "!has(self.requeue) || !has(self.requeue.maxFailCount) || has(self.requeue.after)",
        "does nothing without after; give after, the time after which failed items are sent back, or "
        "remove maxFailCount",
        ".requeue.maxFailCount",
    ),
    CelRule(
        "failed-counts-need-times",
        "!has(self.remove) || !has(self.remove.minFailCount) || has(self.remove.olderThan)",
        "does nothing without olderThan; give olderThan, the age at which failed items are removed, or "
        "remove minFailCount",
        ".remove.minFailCount",
    ),
    CelRule(
        "failed-removed-before-requeued",
        "!has(self.requeue) || !has(self.requeue.after) || !has(self.remove) || !has(self.remove.olderThan)"
        " || (has(self.remove.minFailCount) && self.remove.minFailCount > 1)"
        " || duration(self.remove.olderThan) > duration(self.requeue.after)",
        "is not above requeue.after: failed items would be removed before they are sent back; raise "
        "olderThan, lower requeue.after, or "
        "give remove.minFailCount",
        ".remove.olderThan",
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
        "replicas is missing; mode is Manual: give the number of workers",
        ".mode",
    ),
    CelRule(
        "replicas-by-mode",
        "self.mode != 'Auto' || !has(self.replicas)",
        "is set, but mode is Auto, which decides by itself; set mode: Manual to give a number, or use "
        "minReplicas and maxReplicas "
        "and remove replicas",
        ".replicas",
    ),
)

WORKER_RULES = (
    CelRule(
        "drain-within-grace",
        "!has(self.template) || !has(self.template.spec) || "
        "!has(self.template.spec.terminationGracePeriodSeconds)"
        " || duration(self.drainTimeout).getMilliseconds() <= "
        "self.template.spec.terminationGracePeriodSeconds * 1000",
        "is longer than the pod's grace period in template.spec.terminationGracePeriodSeconds, so the "
        "app would be killed with items in "
        f"hand; raise the grace period to drainTimeout and {GRACE_MARGIN} seconds or more, remove it (it "
        f"then follows from drainTimeout), "
        "or lower drainTimeout",
        ".drainTimeout",
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
)

_RESOURCES = CelRule(
    "requests-within-limits",
    "!has(self.requests) || !has(self.limits) || self.requests.all(name, !(name in self.limits)"
    " || quantity(string(self.requests[name])).compareTo(quantity(string(self.limits[name]))) <= 0)",
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
    return CelRule(
        "template-metadata",
        f"self.all(key, !key.startsWith('{RESERVED_PREFIX}'))",
        f"a key begins with {RESERVED_PREFIX}, which claimq keeps for its own {kind}; choose another prefix",
    )


OBJECT_RULES: dict[str, tuple[CelRule, ...]] = {
    "spec": SPEC_RULES,
    "spec.redis": REDIS_RULES,
    "spec.retryDelay": RETRY_RULES,
    "spec.failedItems": FAILED_RULES,
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
            f"self != '{SOCKET_VARIABLE}'",
            f"is {SOCKET_VARIABLE}, which claimq sets itself; remove it",
        ),
    ),
    "spec.worker.template.metadata.labels": (
        _reserved("labels"),
        CelRule(
            "template-metadata",
            "self.all(key, self[key].size() <= 63)",
            "a label's value has at most 63 characters; shorten it",
        ),
    ),
    "spec.worker.template.metadata.annotations": (_reserved("annotations"),),
}
"""Rules of a single field, by its path."""

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
