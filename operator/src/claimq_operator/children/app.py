"""The app's container, from spec.worker, the pod template and what claimq injects. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from claimq.address import variables
from claimq_control.manifest import EnvVar, QueueSpec, WorkerSpec
from claimq_kubernetes.port import Json, part, parts
from claimq_operator.children.merging import merge, merge_by_name, without_empty
from claimq_operator.children.sidecar import hook, http_get, locked_down, push_address
from claimq_process.names import APP_CONTAINER, SOCKET, SOCKET_DIRECTORY, SOCKET_VOLUME

OWN_PRE_STOP = (
    'the app has its own preStop hook, so claimq\'s is not injected: end it with "POST /v1/prestop" on the socket '
    "$CLAIMQ_SOCKET, or remove it; otherwise the app gets SIGTERM while it works on items"
)
OWN_LIVENESS = (
    "the app has its own livenessProbe, so claimq's is not injected: an item that exceeds processingTimeout restarts "
    "the app only if that probe detects it"
)


@dataclass(frozen=True, slots=True)
class App:
    """The container, and a sentence for each part that was not injected because the template has its own."""

    container: Json
    left_out: tuple[str, ...] = ()


def app(spec: QueueSpec, key: str) -> App:
    """The app's container; ``key`` is the queue's lifecycle key."""
    template = _from_template(spec.worker)
    left_out: list[str] = []
    lifecycle: Json = {**part(template, "lifecycle")}
    if "preStop" in lifecycle:
        left_out.append(OWN_PRE_STOP)
    else:
        # Returns when no item is in progress or the drain timeout is over; SIGTERM follows.
        lifecycle["preStop"] = {"httpGet": hook(spec, "/worker/prestop", key)}
    injected: Json = {"lifecycle": lifecycle}
    if "livenessProbe" not in template:
        # Also without a timeout: an app that hangs with an item that was taken from it does nothing else.
        injected["livenessProbe"] = _liveness(spec)
    elif spec.processing_timeout is not None:
        left_out.append(OWN_LIVENESS)
    container = locked_down(merge({**_from_spec(spec.worker), **injected}, template))
    variables_added = [{"name": variables.SOCKET, "value": SOCKET}]
    if spec.worker.pushes is not None:
        variables_added.append(push_address(spec.worker.pushes))
    container["env"] = merge_by_name(variables_added, container.get("env", []))
    mount = {"name": SOCKET_VOLUME, "mountPath": SOCKET_DIRECTORY}
    container["volumeMounts"] = merge_by_name([mount], parts(template, "volumeMounts"))
    return App(container, tuple(left_out))


def _from_template(worker: WorkerSpec) -> Mapping[str, Any]:
    containers: Any = parts(worker.template.spec, "containers")
    matches: list[Json] = [container for container in containers if container.get("name") == APP_CONTAINER]
    return matches[0] if matches else {}


def _from_spec(worker: WorkerSpec) -> Json:
    return without_empty(
        {
            "name": APP_CONTAINER,
            "image": worker.image,
            "command": list(worker.command),
            "args": list(worker.args),
            "env": [_variable(variable) for variable in worker.env],
            "envFrom": [dict(source) for source in worker.env_from],
            "resources": without_empty(
                {"requests": dict(worker.resources.requests), "limits": dict(worker.resources.limits)}
            ),
        }
    )


def _variable(variable: EnvVar) -> Json:
    if variable.value_from:
        return {"name": variable.name, "valueFrom": dict(variable.value_from)}
    return {"name": variable.name, "value": variable.value or ""}


def _liveness(spec: QueueSpec) -> Json:
    """The probe of the app, which the sidecar answers. A sidecar that is down for less than a minute ends no app whose
    queue has no timeout."""
    return {
        "httpGet": http_get(spec, "/worker/livez"),
        "periodSeconds": 5,
        "timeoutSeconds": 3,
        "failureThreshold": 3 if spec.processing_timeout is not None else 12,
    }
