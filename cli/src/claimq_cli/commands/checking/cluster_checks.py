"""The checks of `claimq doctor` on objects of Kubernetes: definition, permissions, status, pods, Deployments. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from claimq_admin.text import age, count
from claimq_cli.commands.checking.diagnosis import Check, Commands, ok, problem, stands_still, warning
from claimq_control.decide.conditions.meanings import fix_of
from claimq_control.decide.conditions.progressing import ITEM_MAY_HANG, NO_PROGRESS
from claimq_kubernetes.port import part, parts
from claimq_kubernetes.worker_pods import SIDECAR_WAITS, waits_for_sidecar
from claimq_process.names import (
    API_VERSION,
    OPERATOR_VERSION_LABEL,
    QUEUE_LABEL,
    SIDECAR_CONTAINER,
    VERSION_LABEL,
)
from claimq_process.release import minor_of

Json = Mapping[str, Any]
NOT_READY_SECONDS = 120.0
"""A pod that has not been ready for longer is stuck."""
GROUP, _, VERSION = API_VERSION.partition("/")
DEFINITION = f"CRD reliablequeues.{GROUP}"
_INSTALL = "install or upgrade the chart, or `kubectl apply --server-side -f crds/`"
_UPGRADE = "upgrade the chart (charts/claimq/README.md#upgrade)"
_RELEASES = "releases"
_MOST_NAMED = 3
_TRANSIENT = ("PodInitializing", "ContainerCreating")
_CRASHES = ("CrashLoopBackOff", "RunContainerError")


class Permission(NamedTuple):
    """What the user of kubectl may do, and what does not work without it."""

    verb: str
    resource: str
    purpose: str
    subresource: str = ""

    @property
    def words(self) -> str:
        """The permission as in a Role."""
        return f"{self.verb} {self.resource}{self.subresource and '/'}{self.subresource}"


PERMISSIONS = (
    Permission("get", f"reliablequeues.{GROUP}", "commands do not find the server of a queue"),
    Permission("list", f"reliablequeues.{GROUP}", "commands need the NAME of a queue"),
    Permission("get", "secrets", "a server whose address or password is in a Secret cannot be used"),
    Permission("list", "pods", "worker pods are not checked, and a Service has no port to forward"),
    Permission("create", "pods", "a server inside the cluster cannot be reached", "portforward"),
)

_GOOD = {
    "Stalled": ("NotStalled",),
    "RedisReachable": ("Reachable",),
    "WorkersAvailable": ("AllReady", "NoneWanted"),
    # Suspended and Unknown: the conditions Suspended and RedisReachable report them.
    "Suspended": ("NotSuspended", "Unknown"),
    "ScalingActive": ("Auto", "Manual", "External", "Suspended", "Unknown"),
    "ScalingLimited": ("NotLimited", "NoProgress", "Unknown"),
    "Progressing": ("Progressing", "PausedByHand", "ClosedByApp", "SpecSuspend"),
    "OperatorConflict": (),
    "PauseForgotten": (),
    "Full": (),
    "NoisyNeighbour": (),
}
"""The reasons of each condition that need no action. Ready has the reason of another condition, so it is left out."""
_STOPS = {
    ("Stalled", "True"),
    *((kind, "False") for kind in ("RedisReachable", "WorkersAvailable", "Progressing")),
}
_STARTING = "Starting"
_FIXES = {
    "PausedByHand": "{claimq} resume {name}",
    "ClosedByApp": "{claimq} resume {name}",
    "SpecSuspend": """{kubectl} patch rq {name} --type=merge --patch '{{"spec":{{"suspend":false}}}}'""",
    "Paused": "{kubectl} annotate rq {name} claimq.dev/pause-reconcile-",
    "MaxWaiting": "{claimq} clients {name}; add workers, or raise spec.maxWaiting",
    "MaxReplicas": "{claimq} why {name}; raise spec.scaling.maxReplicas or spec.scaling.targetAge",
    "LongItems": "{claimq} why {name}; raise spec.scaling.maxReplicas, or make items shorter",
    "SlowStart": "{claimq} why {name}; set spec.scaling.minReplicas, or make workers start faster",
}
_ELSE = "{fix}; {kubectl} describe rq {name}; docs/reference/status.md#{anchor}"


def definition_check(group: Json | None) -> Check:
    """Whether the API serves the version of this command. ``group``: the APIGroup claimq.dev; None if there is none."""
    if group is None:
        return problem(DEFINITION, "it is not installed", _INSTALL)
    versions = [str(version["version"]) for version in parts(group, "versions")]
    if VERSION not in versions:
        served = ", ".join(versions) or "no version"
        return problem(
            DEFINITION,
            f"the cluster serves {served}, and this command reads {VERSION}",
            f"use the claimq of the cluster's release, or {_INSTALL}",
        )
    return ok(DEFINITION, f"installed, serves {VERSION}")


def permission_checks(missing: Iterable[Permission]) -> list[Check]:
    """A warning for each permission that the user lacks."""
    warnings = [
        warning(
            "permissions",
            f"no permission to {permission.words}: {permission.purpose}",
            f"a Role with {permission.words} in this namespace (docs/cli.md#on-a-cluster)",
        )
        for permission in missing
    ]
    return warnings or [ok("permissions", "all that commands need in this namespace")]


def status_checks(body: Json, commands: Commands) -> list[Check]:
    """Whether an operator works on a ReliableQueue, and its conditions that need action."""
    metadata, status = body["metadata"], part(body, "status")
    subject, generation = f"ReliableQueue {metadata['name']}", metadata.get("generation", 0)
    conditions = _conditions(status)
    fix = f"install or repair the operator: {commands.kubectl} describe rq {metadata['name']}; "
    fix += "docs/troubleshooting.md#no-status-appears"
    if not conditions:
        return [problem(subject, "it has no status: no operator works on it", fix)]
    checks: list[Check] = []
    observed = status.get("observedGeneration", 0)
    if observed < generation:
        text = f"its status is of generation {observed} and the object has {generation}: the operator has not acted on "
        checks.append(problem(subject, f"{text}the last change", fix))
    reasons: set[str] = set()
    for kind, good in _GOOD.items():
        condition = conditions.get(kind, {})
        reason = condition.get("reason", "")
        if condition and reason not in {*good, *reasons}:
            checks.append(_condition_check(metadata["name"], condition, commands))
            reasons.add(reason)
    workers = part(status, "workers").get("summary", "0/0")
    return checks or [ok(subject, f"all conditions are good, {workers} workers are ready")]


def _condition_check(name: str, condition: Json, commands: Commands) -> Check:
    kind, reason = condition["type"], condition["reason"]
    fix = _FIXES.get(reason, _ELSE).format(
        fix=fix_of(kind, reason) or "as the message says",
        claimq=commands.claimq,
        kubectl=commands.kubectl,
        name=name,
        anchor=kind.lower(),
    )
    check, message = f"ReliableQueue {name}", f"{kind} {reason}: {condition.get('message', '')}"
    stops = (kind, condition["status"]) in _STOPS and reason != _STARTING
    make = problem if stops else warning
    if reason in (NO_PROGRESS, ITEM_MAY_HANG) and "; " in message:
        return stands_still(check, name, message, make)
    return make(check, message, fix)


def pod_checks(pods: Iterable[Json], now: float, commands: Commands) -> list[Check]:
    """The stuck worker pods: one check for all pods of a queue with the same cause."""
    total, stuck = 0, dict[tuple[str, str], list[tuple[str, str]]]()
    for pod in pods:
        metadata, phase = pod["metadata"], part(pod, "status").get("phase")
        if "deletionTimestamp" in metadata or phase in ("Succeeded", "Failed"):
            continue
        total += 1
        if cause := _cause(pod, now):
            queue = metadata["labels"].get(QUEUE_LABEL, "")
            stuck.setdefault((queue, cause[0]), []).append((metadata["name"], cause[1]))
    checks = [
        problem(
            f"worker pods of {queue}",
            f"{count(len(names), 'pod')} stuck: {reason} (first {names[0][0]})",
            f"{commands.kubectl} {names[0][1]}; docs/reference/status.md#workersavailable",
        )
        for (queue, reason), names in stuck.items()
    ]
    return checks or [ok("worker pods", f"{count(total, 'pod')}, none is stuck")]


def _cause(pod: Json, now: float) -> tuple[str, str] | None:
    """Why a pod is stuck, and the arguments of kubectl that show more; None if it is not."""
    status = part(pod, "status")
    describe = f"describe pod {pod['metadata']['name']}"
    for container in (*parts(status, "initContainerStatuses"), *parts(status, "containerStatuses")):
        waiting = part(part(container, "state"), "waiting")
        reason = waiting.get("reason", "")
        if reason and reason not in _TRANSIENT:
            logs = f"logs {pod['metadata']['name']} --container={container['name']} --previous"
            return f"{reason} of container {container['name']}", logs if reason in _CRASHES else describe
    conditions = _conditions(status)
    ready, scheduled = conditions.get("Ready", {}), conditions.get("PodScheduled", {})
    since = ready.get("lastTransitionTime") or pod["metadata"].get("creationTimestamp")
    if ready.get("status") == "True" or not since:
        return None
    if now - datetime.fromisoformat(since).timestamp() <= NOT_READY_SECONDS:
        return None
    if scheduled.get("status") == "False":
        text = f"{scheduled.get('reason', 'Unschedulable')}: {scheduled.get('message', '')}"
        return text.rstrip(": "), describe
    if waits_for_sidecar(status):
        return SIDECAR_WAITS, f"logs {pod['metadata']['name']} --container={SIDECAR_CONTAINER}"
    return f"{status.get('phase', 'Pending')} and not ready for more than {age(NOT_READY_SECONDS)}", describe


def image_check(deployments: Iterable[Json], commands: Commands) -> Check:
    """Whether all worker Deployments have the same sidecar image."""
    by_image: dict[str, list[str]] = {}
    for body in deployments:
        spec = part(part(part(body, "spec"), "template"), "spec")
        for container in (*parts(spec, "initContainers"), *parts(spec, "containers")):
            if container["name"] == SIDECAR_CONTAINER:
                by_image.setdefault(container.get("image", ""), []).append(body["metadata"]["name"])
    subject = "sidecar images"
    if len(by_image) > 1:
        names = "; ".join(f"{image}: {', '.join(sorted(names))}" for image, names in sorted(by_image.items()))
        return warning(
            subject,
            f"the Deployments differ, since a rollout is not over or a queue has its own image: {names}",
            f"{commands.kubectl} rollout status deployment/NAME; or remove spec.sidecar.image of the queue",
        )
    return ok(subject, f"all worker Deployments have {next(iter(by_image), 'none')}")


def release_checks(deployments: Iterable[Json], definition: Json, release: str) -> list[Check]:
    """Whether the operator that applied the worker Deployments, and the definition, are of the release of this command:
    their major and minor numbers are equal. Nothing without any of them, or if the release of the command is unknown.

    ``definition``: empty if the user may not read it.
    """
    own_minor = minor_of(release)
    if own_minor is None:
        return []
    by_release: dict[str, list[str]] = {}
    for body in deployments:
        metadata = body["metadata"]
        by_release.setdefault(part(metadata, "labels").get(OPERATOR_VERSION_LABEL, ""), []).append(
            metadata["name"]
        )
    other_releases = {
        operator_release: names
        for operator_release, names in sorted(by_release.items())
        if minor_of(operator_release) != own_minor
    }
    checks = [
        _operator_warning(operator_release, names, release)
        for operator_release, names in other_releases.items()
    ]
    installed = str(part(part(definition, "metadata"), "labels").get(VERSION_LABEL) or "")
    if installed and minor_of(installed) != own_minor:
        checks.append(
            warning(_RELEASES, f"this command is claimq {release}, and the CRD is of {installed}", _INSTALL)
        )
    compared = [*(["the operator"] if by_release else []), *(["the CRD"] if installed else [])]
    if not checks and compared:
        checks.append(ok(_RELEASES, f"this command and {' and '.join(compared)} are of claimq {release}"))
    return checks


def _operator_warning(other: str, names: list[str], release: str) -> Check:
    named = ", ".join(sorted(names)[:_MOST_NAMED]) + (", ..." if len(names) > _MOST_NAMED else "")
    theirs = minor_of(other)
    if theirs is None:
        text = (
            f"the operator that applied {named} has not written its release, so it is older than this command"
        )
        return warning(_RELEASES, f"{text} ({release})", _UPGRADE)
    text = f"this command is claimq {release}, and the operator that applied {named} is of {other}"
    is_older = theirs < (minor_of(release) or theirs)
    return warning(_RELEASES, text, f"{_UPGRADE}, or {_install(other)}" if is_older else _install(other))


def _install(release: str) -> str:
    return f"install the command from a clone of release {release} (README.md)"


def _conditions(status: Json) -> dict[str, Json]:
    return {condition["type"]: condition for condition in parts(status, "conditions")}
