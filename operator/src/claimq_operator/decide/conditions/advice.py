"""What a person can change so that workers get on: the field of the queue, for what the cluster complains of. Pure."""

from __future__ import annotations

from claimq_operator.kubernetes_api.labels import APP_CONTAINER, SIDECAR_CONTAINER
from claimq_operator.kubernetes_api.worker_pods import Trouble

_IMAGE = (
    "ErrImagePull",
    "ImagePullBackOff",
    "ErrImageNeverPull",
    "InvalidImageName",
    "ImageInspectError",
    "RegistryUnavailable",
)
_CONFIG = ("CreateContainerConfigError", "CreateContainerError")
_ENDS = ("CrashLoopBackOff", "RunContainerError", "StartError")
_IMAGES = {
    APP_CONTAINER: "spec.worker.image",
    SIDECAR_CONTAINER: "spec.sidecar.image, or the sidecar's image of the operator,",
}


def advice(trouble: Trouble) -> str:
    """What to do about it; empty when nothing is known."""
    container = trouble.container
    if trouble.reason in _IMAGE:
        field = _IMAGES.get(container, f'the image of "{container}" in spec.worker.template')
        return f"correct {field} or name imagePullSecrets in spec.worker.template.spec"
    if trouble.reason in _CONFIG:
        return (
            "correct spec.worker.env, spec.worker.envFrom or spec.worker.template, or create what they name"
        )
    if trouble.reason in _ENDS:
        what = "spec.worker.command, args or env" if container == APP_CONTAINER else "spec.worker.template"
        look = f"look at `kubectl logs {trouble.pod} --container={container} --previous`"
        return f"{look}, and correct the program or {what}"
    if trouble.reason == "Unschedulable":
        return (
            "lower spec.worker.resources.requests, correct the nodeSelector, affinity or tolerations in "
            "spec.worker.template.spec, or add nodes"
        )
    if trouble.reason == "FailedCreate":
        return (
            "correct spec.worker.template or spec.worker.resources, or let the namespace's quota, limits or Pod "
            "Security take them"
        )
    return ""
