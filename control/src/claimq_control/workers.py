"""A worker pod as decisions see it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from claimq_process.names import worker_prefix


@dataclass(frozen=True, slots=True)
class PodProblem:
    """Why a pod does not become ready, as the kubelet or the scheduler reports it."""

    reason: str
    message: str
    pod: str = ""
    container: str = ""


@dataclass(frozen=True, slots=True)
class WorkerPod:
    """One worker pod. ``revision``: the hash of its pod template."""

    name: str
    uid: str
    node: str = ""
    is_ready: bool = False
    is_terminating: bool = False
    """Whether its deletion was requested. It claims no more items."""
    revision: str = ""
    created_at: str = ""
    """A timestamp of the API; these can be compared as text."""
    deletion_cost: int = 0
    problem: PodProblem | None = None
    init_container: str = ""
    """The init container that runs and that the app's container waits for; empty if there is none."""
    busy: int = 0
    """The number of claims that it holds."""

    @property
    def prefix(self) -> str:
        """The common prefix of its worker names."""
        return worker_prefix(self.name, self.uid)
