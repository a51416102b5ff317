"""When the pods of a queue were ordered, ready, asked to end and gone, by the times that the API server reports."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from claimq_kubernetes.port import Json


@dataclass(frozen=True)
class PodTimes:
    """One pod's, in Unix seconds, as exact as Kubernetes writes them: to the second. None: it did not happen."""

    name: str
    ordered: float
    ready: float | None
    asked_to_end: float | None
    ended: float | None

    def lived(self, until: float) -> float:
        """Seconds from its order to its end, or to `until` if it still ran then."""
        end = until if self.ended is None else min(self.ended, until)
        return max(end - self.ordered, 0.0)

    def is_ready_at(self, instant: float) -> bool:
        """Whether it was ready then, and not asked to end."""
        return self.ready is not None and self.ready <= instant and not self.is_ending_at(instant)

    def is_ending_at(self, instant: float) -> bool:
        """Whether it had been asked to end."""
        return self.asked_to_end is not None and self.asked_to_end <= instant


def pod_times(states: Iterable[Json]) -> list[PodTimes]:
    """From all states of all pods, in the order in which the API server reported them; the oldest pod first."""
    found: dict[str, list[Json]] = {}
    for state in states:
        found.setdefault(state["metadata"]["name"], []).append(state)
    return sorted(map(_one, found.values()), key=lambda pod: pod.ordered)


def _one(states: list[Json]) -> PodTimes:
    head = states[-1]["metadata"]
    asked = None
    if "deletionTimestamp" in head:
        asked = _seconds(head["deletionTimestamp"]) - head.get("deletionGracePeriodSeconds", 0)
    ready = [at for state in states if (at := _ready_since(state)) is not None]
    return PodTimes(
        name=head["name"],
        ordered=_seconds(head["creationTimestamp"]),
        ready=min(ready, default=None),
        asked_to_end=asked,
        ended=_ended(states[-1]),
    )


def _ready_since(state: Json) -> float | None:
    for one in state["status"].get("conditions", []):
        if one["type"] == "Ready" and one["status"] == "True":
            return _seconds(one["lastTransitionTime"])
    return None


def _ended(last: Json) -> float | None:
    """The end of its last container; of a pod that was deleted before it had one: when that was asked for."""
    status = last["status"]
    containers = [*status.get("containerStatuses", []), *status.get("initContainerStatuses", [])]
    ends = [one["state"].get("terminated") for one in containers]
    if ends and all(ends):
        return max(_seconds(one["finishedAt"]) for one in ends)
    never_ran = all("running" not in one["state"] for one in containers)
    if "deletionTimestamp" in last["metadata"] and never_ran:
        return _seconds(last["metadata"]["deletionTimestamp"])
    return None


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
