"""The fix for a pod problem: which field of the queue to change. Pure."""

from __future__ import annotations

import re

from claimq_process.names import APP_CONTAINER, SIDECAR_CONTAINER

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

_PROGRAMS = {
    APP_CONTAINER: "spec.worker.command, args or env",
    SIDECAR_CONTAINER: "spec.sidecar (image, port or resources)",
}
_IS_ROOT = re.compile("runAsNonRoot")
_HAS_ENDED = re.compile("its previous run ended with exit code 0(?![0-9])")
_NEEDS_SIDECAR = re.compile(f"must specify .*{SIDECAR_CONTAINER}")


def advice(reason: str, message: str, pod: str = "", container: str = "") -> str:
    """What to do about the problem of a pod or of its container; empty if it is unknown."""
    if reason in _IMAGE:
        field = _IMAGES.get(container, f'the image of "{container}" in spec.worker.template')
        return f"correct {field}, or set imagePullSecrets in spec.worker.template.spec"
    if reason in _CONFIG and _IS_ROOT.search(message):
        return (
            "worker pods may not run as root: use an image whose user is a number above 0, or set runAsUser to one in "
            "spec.worker.template.spec.securityContext"
        )
    if reason in _CONFIG:
        return "correct spec.worker.env, spec.worker.envFrom or spec.worker.template, or create the missing object"
    if reason in _ENDS:
        look = f"see `kubectl logs {pod} --container={container} --previous`"
        if container == APP_CONTAINER and _HAS_ENDED.search(message):
            return (
                f"{look}; a worker must not end by itself: the kubelet restarts it with growing delays, also after "
                "exit code 0, so let the program process further items, or start it again in a loop of its own"
            )
        return f"{look} and correct the program or {_PROGRAMS.get(container, 'spec.worker.template')}"
    if reason == "Unschedulable":
        return (
            "lower spec.worker.resources.requests, correct the nodeSelector, affinity or tolerations in "
            "spec.worker.template.spec, or add nodes"
        )
    if reason == "FailedCreate":
        if _NEEDS_SIDECAR.search(message):
            return (
                "set the named values of the container claimq-sidecar in spec.sidecar.resources, and those of the "
                "others in spec.worker.resources or spec.worker.template"
            )
        return (
            "correct spec.worker.template, spec.worker.resources or spec.sidecar.resources (the sidecar counts too), "
            "or change the namespace's quota, limits or Pod Security level to admit the pods"
        )
    return ""
