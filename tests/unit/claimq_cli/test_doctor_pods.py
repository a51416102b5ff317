"""The checks of `claimq doctor` on worker pods."""

from datetime import datetime
from typing import Any

from claimq_cli.commands.checking.cluster_checks import pod_checks
from claimq_cli.commands.checking.diagnosis import Commands

NOW = datetime.fromisoformat("2026-01-01T00:00:00Z").timestamp()
COMMANDS = Commands("claimq -n shop", "kubectl -n shop")


def pod(name: str, *, since: str = "2025-12-31T23:50:00Z", **status: Any) -> dict[str, Any]:
    ready = {"type": "Ready", "status": "False", "lastTransitionTime": since}
    labels = {"claimq.dev/queue": "thumbs"}
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {"phase": "Pending", "conditions": [ready], **status},
    }


def waiting(reason: str) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "worker", "state": {"waiting": {"reason": reason}}}]}


def test_stuck_pods_are_shown_by_cause_with_the_command_that_shows_why() -> None:
    recent = "2025-12-31T23:59:00Z"
    unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no cpu"}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2025-12-31T23:00:00Z"}
    not_ready = {"type": "Ready", "status": "False", "lastTransitionTime": "2025-12-31T23:00:00Z"}
    gone = pod("gone", **waiting("CrashLoopBackOff"))
    gone["metadata"]["deletionTimestamp"] = recent
    found = pod_checks(
        [
            pod("a", since=recent, **waiting("CrashLoopBackOff")),
            pod("b", since=recent, **waiting("CrashLoopBackOff")),
            pod("c", since=recent, **waiting("ImagePullBackOff")),
            pod("d", conditions=[not_ready, unscheduled]),
            pod("e", **waiting("ContainerCreating")),
            pod("starting", since=recent, **waiting("ContainerCreating")),
            pod("fine", conditions=[ready]),
            pod("failed", phase="Failed"),
            gone,
        ],
        NOW,
        COMMANDS,
    )
    assert [check.state for check in found] == ["problem"] * 4
    assert [one.message for one in found] == [
        "2 pods stuck: CrashLoopBackOff of container worker (first a)",
        "1 pod stuck: ImagePullBackOff of container worker (first c)",
        "1 pod stuck: Unschedulable: no cpu (first d)",
        "1 pod stuck: Pending and not ready for more than 2 min (first e)",
    ]
    assert found[0].fix.startswith("kubectl -n shop logs a --container=worker --previous;")
    assert found[1].fix.startswith("kubectl -n shop describe pod c;")
    assert [check.state for check in pod_checks([pod("fine", conditions=[ready])], NOW, COMMANDS)] == ["ok"]


def test_a_pod_whose_app_may_not_listen_names_the_log_of_its_sidecar() -> None:
    running: dict[str, Any] = {"state": {"running": {}}}
    app = {"name": "worker", "ready": True, **running}
    sidecar = {"name": "claimq-sidecar", "ready": False, **running}
    (check,) = pod_checks(
        [pod("a", phase="Running", containerStatuses=[app], initContainerStatuses=[sidecar])], NOW, COMMANDS
    )
    assert "its sidecar is not ready: the app does not listen on $CLAIMQ_PUSH_PORT" in check.message
    assert check.fix.startswith("kubectl -n shop logs a --container=claimq-sidecar;")
