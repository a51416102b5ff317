"""Objects that tests put into a cluster: pods that pass Pod Security `restricted`, and services."""

from collections.abc import Mapping

Object = dict[str, object]


def pod(name: str, *containers: Object, labels: Mapping[str, str] | None = None, **spec: object) -> Object:
    """A pod with the label app=NAME; `spec` is added to its spec. It is given one second to end."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name, **(labels or {})}},
        "spec": {
            "containers": list(containers),
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "terminationGracePeriodSeconds": 1,
            **spec,
        },
    }


def container(name: str, image: str, **more: object) -> Object:
    """A container with no right that it can do without; the image is there already or the pod does not start."""
    confined = {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    return {"name": name, "image": image, "imagePullPolicy": "Never", "securityContext": confined, **more}


def service(name: str) -> Object:
    """A service for the pods with the label app=NAME."""
    spec = {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": 8080}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}
