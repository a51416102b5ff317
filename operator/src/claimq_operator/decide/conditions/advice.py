"""The fix for a pod problem: which field of the queue to change. Pure."""

from __future__ import annotations

from claimq_operator.kubernetes_api.worker_pods import PodProblem
from claimq_spec.names import APP_CONTAINER, SIDECAR_CONTAINER

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
    SIDECAR_CONTAINER: "spec.sidecar.image or the operator's sidecar image",
}


def advice(problem: PodProblem) -> str:
    """What to do about the problem; empty if it is unknown."""
    container = problem.container
    if problem.reason in _IMAGE:
        field = _IMAGES.get(container, f'the image of "{container}" in spec.worker.template')
        return f"correct {field}, or set imagePullSecrets in spec.worker.template.spec"
    if problem.reason in _CONFIG:
        return "correct spec.worker.env, spec.worker.envFrom or spec.worker.template, or create the missing object"
    if problem.reason in _ENDS:
        what = "spec.worker.command, args or env" if container == APP_CONTAINER else "spec.worker.template"
        look = f"see `kubectl logs {problem.pod} --container={container} --previous`"
        return f"{look} and correct the program or {what}"
    if problem.reason == "Unschedulable":
        return (
            "lower spec.worker.resources.requests, correct the nodeSelector, affinity or tolerations in "
            "spec.worker.template.spec, or add nodes"
        )
    if problem.reason == "FailedCreate":
        return (
            "correct spec.worker.template or spec.worker.resources, or change the namespace's quota, limits or Pod "
            "Security level to admit the pods"
        )
    return ""
