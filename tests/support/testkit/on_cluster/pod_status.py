"""What the API says of pods and other objects, in short."""

from collections.abc import Mapping

from claimq_kubernetes.port import Json


def is_ready(condition: Json) -> bool:
    """Whether a condition of a pod says that it is ready."""
    return bool(condition["type"] == "Ready" and condition["status"] == "True")


def statuses(status: Json) -> list[Json]:
    """Those of a pod's containers, and of its sidecars."""
    return [*status.get("containerStatuses", []), *status.get("initContainerStatuses", [])]


def containers(pods: Mapping[str, Json]) -> list[tuple[str, str, Json, Json]]:
    """Pod, name, state and last state of each container."""
    return [
        (name, one["name"], one["state"], one["lastState"])
        for name, pod in pods.items()
        for one in statuses(pod["status"])
    ]


def messages(body: Json) -> list[str]:
    """What an object's conditions say."""
    found: list[Json] = body.get("status", {}).get("conditions", [])
    return [f"{one['type']} {one['status']}: {one.get('message', '')}" for one in found]
