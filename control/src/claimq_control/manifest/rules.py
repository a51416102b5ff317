"""Rules between fields. A rule names the fields that it needs. It is skipped while one of these fields is invalid.

The CRD has the same rules in CEL; ``code`` identifies a pair.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from claimq.address import variables
from claimq.address.redis_url import split_url
from claimq.errors import Problem
from claimq.limits import MOST_OF_KEY, Per, Unit
from claimq_control.manifest.pod_template import POD_PATH, listeners, pod_problems
from claimq_control.manifest.push_spec import Delivery
from claimq_control.manifest.queue_spec import MatchSpec, QueueSpec
from claimq_control.manifest.reading import Reading, shown
from claimq_control.manifest.redis_spec import RedisSpec, url_fault
from claimq_control.manifest.scaling_spec import ScalingMode
from claimq_control.quantity import parse_quantity
from claimq_process.duration import format_duration
from claimq_process.names import GRACE_MARGIN, PREFIX
from claimq_process.push import PushMode
from claimq_process.size import format_size

MIB = 1024 * 1024
LARGEST_PAYLOAD = 64 * MIB
"""The most that ``maxPayload`` may be (``QueueSpec.max_payload``)."""
SIDECAR_BASE = 64 * MIB
"""Memory of a sidecar without payloads, with a thousand connections."""
SIDECAR_PER_BYTE = 32
"""Memory for each byte of a payload with the worst content, as in the sidecar's settings."""
SIDECAR_LEAST_PAYLOAD = MIB // 4

SET_BY_CLAIMQ = (variables.SOCKET, variables.PUSH_PORT, variables.PUSH_SOCKET)
"""Variables of the app that ``worker.env`` must not have."""

_SIDECARS_PORT = "the sidecar's own port in the pod; choose another, or set spec.sidecar.port"

Check = Callable[[QueueSpec], Iterator[Problem]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One condition between fields."""

    code: str
    needs: tuple[str, ...]
    check: Check


RULES: list[Rule] = []


def apply_rules(spec: QueueSpec, reading: Reading) -> list[str]:
    """Reports the rules between fields that ``spec`` breaks; returns their codes."""
    broken: list[str] = []
    for rule in RULES:
        if not any(reading.has_problem_in(need) for need in rule.needs):
            problems = list(rule.check(spec))
            reading.problems.extend(problems)
            broken += [rule.code] if problems else []
    return broken


def _rule(code: str, *needs: str) -> Callable[[Check], Check]:
    def register(check: Check) -> Check:
        RULES.append(Rule(code, needs, check))
        return check

    return register


@_rule("url-form", "spec.redis.url")
def _url_form(spec: QueueSpec) -> Iterator[Problem]:
    if (
        spec.redis is not None
        and spec.redis.url is not None
        and (fault := url_fault(spec.redis.url)) is not None
    ):
        yield Problem("spec.redis.url", fault)


@_rule("one-address", "spec.redis.url", "spec.redis.secretRef")
def _one_address(spec: QueueSpec) -> Iterator[Problem]:
    if spec.redis is None:
        return
    if spec.redis.url is not None and spec.redis.secret_ref is not None:
        yield Problem("spec.redis", "has both url and secretRef; keep one of them and remove the other")
    if spec.redis.url is None and spec.redis.secret_ref is None:
        yield Problem("spec.redis", "has neither url nor secretRef; give one of them")


@_rule("no-password-in-url", "spec.redis.url", "spec.redis.user")
def _no_password_in_url(spec: QueueSpec) -> Iterator[Problem]:
    if spec.redis is None or spec.redis.url is None:
        return
    parts = split_url(spec.redis.url)
    user, colon, _ = parts.userinfo.partition(":")
    if colon or "password=" in parts.query:
        yield Problem(
            "spec.redis.url",
            "holds a password, which everyone who may read this object would see; remove it from the url and name "
            "a Secret in passwordSecretRef, or put the whole url in a Secret and name that in secretRef",
        )
    elif user and spec.redis.user is not None:
        yield Problem("spec.redis.user", "is given in the url as well; remove one of the two")


@_rule("one-topology", "spec.redis.url", "spec.redis.sentinel", "spec.redis.cluster")
def _one_topology(spec: QueueSpec) -> Iterator[Problem]:
    redis = spec.redis
    if redis is None:
        return
    if redis.sentinel is not None and redis.cluster:
        yield Problem(
            "spec.redis.sentinel",
            "is set and cluster is true; a server is one or the other: remove one of them",
        )
        return
    scheme = _scheme(redis)
    if redis.sentinel is not None and (scheme == "unix" or "+" in scheme):
        yield Problem(
            "spec.redis.sentinel", f"does not go with a url of {scheme}://; {_plain_url(scheme, 'sentinel')}"
        )
    if redis.cluster and (scheme == "unix" or scheme.endswith("+sentinel")):
        yield Problem(
            "spec.redis.cluster", f"does not go with a url of {scheme}://; {_plain_url(scheme, 'cluster')}"
        )
    elif (redis.cluster or scheme.endswith("+cluster")) and redis.url is not None:
        database = split_url(redis.url).path.strip("/")
        if database not in ("", "0"):
            yield Problem(
                "spec.redis.url",
                f"names the database {database}; a cluster has only 0: remove it from the url",
            )


@_rule("tls-needs-rediss", "spec.redis.url", "spec.redis.tls")
def _tls_needs_rediss(spec: QueueSpec) -> Iterator[Problem]:
    if spec.redis is None or spec.redis.tls is None or spec.redis.url is None:
        return
    scheme = _scheme(spec.redis)
    if not scheme.startswith("rediss"):
        yield Problem(
            "spec.redis.tls",
            f"is set, but a url of {scheme}:// makes no TLS connection; begin the url with "
            f"{scheme.replace('redis', 'rediss', 1) if scheme != 'unix' else 'rediss'}://, or remove tls",
        )


@_rule("lease-within-processing-timeout", "spec.processingTimeout", "spec.busyExpiry")
def _lease_within_processing_timeout(spec: QueueSpec) -> Iterator[Problem]:
    if spec.processing_timeout is None or spec.processing_timeout >= spec.busy_expiry:
        return
    allowed, lease = format_duration(spec.processing_timeout), format_duration(spec.busy_expiry)
    yield Problem(
        "spec.processingTimeout",
        f"is {allowed}, below busyExpiry ({lease}): an item over its time would stay claimed until the lease ends; "
        f"raise processingTimeout to {lease} or more, or lower busyExpiry to {allowed} or less",
    )


@_rule("retry-delay-order", "spec.retryDelay.initial", "spec.retryDelay.max")
def _retry_delay_order(spec: QueueSpec) -> Iterator[Problem]:
    first, longest = spec.retry_delay.initial, spec.retry_delay.max
    if first > longest:
        yield Problem(
            "spec.retryDelay.initial",
            f"is {format_duration(first)}, over max ({format_duration(longest)}); lower initial or raise max",
        )


@_rule("failed-counts-need-times", "spec.failedItems.requeue", "spec.failedItems.remove")
def _failed_counts_need_times(spec: QueueSpec) -> Iterator[Problem]:
    requeue, remove = spec.failed_items.requeue, spec.failed_items.remove
    if requeue.max_fail_count is not None and requeue.min_age is None:
        yield Problem(
            "spec.failedItems.requeue.maxFailCount",
            "does nothing without minAge; give minAge, the time after which failed items are sent back, or remove "
            "maxFailCount",
        )
    if remove.min_fail_count is not None and remove.min_age is None and remove.match is not MatchSpec.EITHER:
        yield Problem(
            "spec.failedItems.remove.minFailCount",
            "does nothing without minAge; give minAge, the age at which failed items are removed, or match: Either to "
            "remove by the count alone, or remove minFailCount",
        )


@_rule("failed-removed-before-requeued", "spec.failedItems.requeue", "spec.failedItems.remove")
def _failed_removed_before_requeued(spec: QueueSpec) -> Iterator[Problem]:
    requeue, remove = spec.failed_items.requeue, spec.failed_items.remove
    if requeue.min_age is None:
        return
    # An item in failed was given up at least once, so a count of 1 chooses all of them.
    is_either = remove.match is MatchSpec.EITHER
    spares_some = remove.min_fail_count is not None and remove.min_fail_count > 1
    if is_either and remove.min_fail_count is not None and not spares_some:
        yield Problem(
            "spec.failedItems.remove.minFailCount",
            f"is {remove.min_fail_count} with match: Either, which removes every failed item before it is sent back; "
            "give 2 or more, or match: Both",
        )
    elif remove.min_age is not None and remove.min_age <= requeue.min_age and (is_either or not spares_some):
        yield Problem(
            "spec.failedItems.remove.minAge",
            f"is {format_duration(remove.min_age)}, not above requeue.minAge ({format_duration(requeue.min_age)}): "
            f"failed items would be removed before they are sent back; raise remove.minAge, lower requeue.minAge, or "
            "give remove.minFailCount with match: Both",
        )


@_rule("rate-or-busy", "spec.limits")
def _rate_or_busy(spec: QueueSpec) -> Iterator[Problem]:
    names = [limit.name for limit in spec.limits]
    for index, limit in enumerate(spec.limits):
        field = f"spec.limits[{index}]"
        if limit.name in names[:index]:
            first = names.index(limit.name)
            yield Problem(f"{field}.name", f"is {shown(limit.name)}, like limits[{first}]; choose another")
        if (limit.rate is None) == (limit.busy is None):
            amount = "neither rate nor busy" if limit.rate is None else "both rate and busy"
            yield Problem(field, f"has {amount}; give one of them")
        elif limit.burst is not None and limit.rate is None:
            yield Problem(f"{field}.burst", "does nothing without rate; give rate, or remove burst")
        is_of_key = limit.per is Per.KEY and limit.unit is Unit.ITEMS
        if is_of_key and (limit.busy or 0) > MOST_OF_KEY:
            yield Problem(f"{field}.busy", f"is {limit.busy}, and per is key; give at most {MOST_OF_KEY}")


@_rule("min-over-max", "spec.scaling.minReplicas", "spec.scaling.maxReplicas")
def _min_over_max(spec: QueueSpec) -> Iterator[Problem]:
    least, most = spec.scaling.min_replicas, spec.scaling.max_replicas
    if least > most:
        yield Problem(
            "spec.scaling.minReplicas",
            f"is {least}, over maxReplicas ({most}); lower minReplicas to {most} or less, or raise maxReplicas to "
            f"{least} or more",
        )


@_rule("replicas-by-mode", "spec.scaling.mode", "spec.scaling.replicas")
def _replicas_by_mode(spec: QueueSpec) -> Iterator[Problem]:
    scaling = spec.scaling
    if scaling.mode is ScalingMode.MANUAL and scaling.replicas is None:
        yield Problem("spec.scaling.replicas", "is missing; mode is Manual: give the number of workers")
    if scaling.mode is ScalingMode.AUTO and scaling.replicas is not None:
        yield Problem(
            "spec.scaling.replicas",
            f"is {scaling.replicas}, but mode is Auto, which decides by itself; set mode: Manual to give a number, "
            f"or use minReplicas and maxReplicas and remove replicas",
        )


@_rule("drain-within-grace", "spec.worker.drainTimeout", "spec.worker.template")
def _drain_within_grace(spec: QueueSpec) -> Iterator[Problem]:
    field = f"{POD_PATH}.terminationGracePeriodSeconds"
    grace = spec.worker.template.spec.get("terminationGracePeriodSeconds")
    if grace is None:
        return
    if isinstance(grace, bool) or not isinstance(grace, int) or grace < 0:
        yield Problem(
            field, f"is {shown(grace)}; give whole seconds, or remove it: it follows from drainTimeout"
        )
        return
    drain = spec.worker.drain_timeout
    if drain > grace:
        yield Problem(
            "spec.worker.drainTimeout",
            f"is {format_duration(drain)}, longer than the pod's grace period ({grace}s in "
            f"template.spec.terminationGracePeriodSeconds), so the app would be killed with items in progress; raise "
            f"the grace period to {math.ceil(drain) + GRACE_MARGIN} or more, remove it (it then follows from "
            f"drainTimeout), or lower drainTimeout",
        )


@_rule("push-needs-delivery", "spec.worker.delivery", "spec.worker.push")
def _push_needs_delivery(spec: QueueSpec) -> Iterator[Problem]:
    if spec.worker.push is not None and spec.worker.delivery is Delivery.PULL:
        yield Problem(
            "spec.worker.push", "does nothing with delivery: pull; set delivery: push, or remove push"
        )


@_rule("push-port", "spec.worker.push.port", "spec.sidecar.port")
def _push_port(spec: QueueSpec) -> Iterator[Problem]:
    push = spec.worker.push
    if push is not None and push.port == spec.sidecar.port:
        yield Problem("spec.worker.push.port", f"is {push.port}, {_SIDECARS_PORT}")


@_rule("sidecar-port", "spec.sidecar.port", "spec.worker.template")
def _sidecar_port(spec: QueueSpec) -> Iterator[Problem]:
    port = spec.sidecar.port
    for field, name in listeners(spec.worker.template.spec, port):
        yield Problem(field, f"{shown(name)} has the port {port}, {_SIDECARS_PORT}")


@_rule("push-batch", "spec.worker.push", "spec.worker.concurrency")
def _push_batch(spec: QueueSpec) -> Iterator[Problem]:
    push, most = spec.worker.push, spec.worker.concurrency
    if push is None or push.batch_size == 1:
        return
    if push.mode is not PushMode.BATCHED:
        yield Problem(
            "spec.worker.push.batchSize",
            f"is {push.batch_size}, but mode {push.mode} has one item in each request; set mode: batched, or remove "
            "batchSize",
        )
    elif push.batch_size > most:
        yield Problem(
            "spec.worker.push.batchSize",
            f"is {push.batch_size}, over concurrency ({most}), the limit on all items that the app has at once; raise "
            f"worker.concurrency to {push.batch_size} or more, or lower batchSize",
        )


@_rule("env-names", "spec.worker.env")
def _env_names(spec: QueueSpec) -> Iterator[Problem]:
    first_index: dict[str, int] = {}
    for index, variable in enumerate(spec.worker.env):
        field = f"spec.worker.env[{index}]"
        if variable.name in first_index:
            yield Problem(
                f"{field}.name",
                f"is {shown(variable.name)}, like env[{first_index[variable.name]}]; remove one of the two",
            )
        first_index.setdefault(variable.name, index)
        if variable.name in SET_BY_CLAIMQ:
            yield Problem(f"{field}.name", f"is {variable.name}, which claimq sets itself; remove it")
        if variable.value is not None and variable.value_from:
            yield Problem(field, "has both value and valueFrom; keep one of them")


@_rule("requests-within-limits", "spec.worker.resources", "spec.sidecar.resources")
def _requests_within_limits(spec: QueueSpec) -> Iterator[Problem]:
    for path, resources in (("spec.worker", spec.worker.resources), ("spec.sidecar", spec.sidecar.resources)):
        for name, request in resources.requests.items():
            limit = resources.limits.get(name)
            if limit is not None and parse_quantity(request) > parse_quantity(limit):
                yield Problem(
                    f"{path}.resources.requests.{name}",
                    f"is {request}, over limits.{name} ({limit}); lower the request or raise the limit",
                )


@_rule("payload-within-memory", "spec.maxPayload", "spec.sidecar.resources")
def _payload_within_memory(spec: QueueSpec) -> Iterator[Problem]:
    limit = spec.sidecar.resources.limits.get("memory")
    least_memory = SIDECAR_BASE + SIDECAR_PER_BYTE * max(spec.max_payload, SIDECAR_LEAST_PAYLOAD)
    if limit is not None and parse_quantity(limit) < least_memory:
        yield Problem(
            "spec.maxPayload",
            f"is {format_size(spec.max_payload)}, and a sidecar with that needs {-(-least_memory // MIB)}Mi of memory; "
            f"lower maxPayload, or raise sidecar.resources.limits.memory ({limit})",
        )


@_rule("template-metadata", "spec.worker.template.metadata")
def _template_metadata(spec: QueueSpec) -> Iterator[Problem]:
    metadata = spec.worker.template.metadata
    for kind, entries in (("labels", metadata.labels), ("annotations", metadata.annotations)):
        for key, value in entries.items():
            field = f"spec.worker.template.metadata.{kind}.{key}"
            if key.startswith(PREFIX):
                yield Problem(
                    field,
                    f"begins with {PREFIX}, which claimq keeps for itself; choose another prefix",
                )
            elif kind == "labels" and len(value) > 63:
                yield Problem(field, f"has {len(value)} characters; a label's value has at most 63")


@_rule("template-pod", POD_PATH)
def _template_pod(spec: QueueSpec) -> Iterator[Problem]:
    yield from pod_problems(spec.worker.template.spec)


def _scheme(redis: RedisSpec) -> str:
    return split_url(redis.url).scheme if redis.url is not None else ""


def _plain_url(scheme: str, field: str) -> str:
    if scheme == "unix":
        return f"give a url of redis:// or rediss://, or remove {field}"
    return f"remove {field}, or begin the url with {scheme.partition('+')[0]}://"
