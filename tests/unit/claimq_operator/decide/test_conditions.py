"""Conditions: status, reason, message and transition time."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from claimq.limits import Pause
from claimq.model import ServerReport, ServerWarning
from claimq_control.decide.conditions import View, all_conditions, with_transition_times
from claimq_control.decide.conditions.condition import Condition
from claimq_control.decide.observed import Observed
from claimq_control.decide.plan import Memory, plan
from claimq_control.fault import Fault
from claimq_kubernetes.advice import advice
from testkit.kubernetes.kubernetes_objects import Body, deployment_body, pod_body, snapshot
from testkit.kubernetes.observations import deployed, with_workers

Look = Callable[..., Observed]


def found(look: Observed, wanted: int = 0) -> dict[str, Condition]:
    return {one.type: one for one in all_conditions(View(look, None, wanted))}


def waiting(name: str, reason: str) -> Body:
    body = pod_body(name, ready=False)
    state = {"waiting": {"reason": reason, "message": "it does not"}}
    body["status"]["containerStatuses"][0]["state"] = state
    return body


def test_a_queue_that_works_is_ready(observed: Look) -> None:
    conditions = found(observed(replicas=1, pods=[pod_body("a")]), wanted=1)
    assert {kind: one.status for kind, one in conditions.items()} == {
        "Ready": "True",
        "RedisReachable": "True",
        "WorkersAvailable": "True",
        "ScalingActive": "Unknown",  # no decision was given here
        "ScalingLimited": "False",
        "Stalled": "False",
        "Suspended": "False",
        "Progressing": "True",
    }


def test_an_empty_queue_without_workers_is_ready(observed: Look) -> None:
    assert found(observed())["Ready"].status == "True"


def test_a_full_server_stalls_the_queue_and_is_reachable(observed: Look) -> None:
    full = ServerReport(
        "valkey", "9.1", "standalone", (ServerWarning("Full", "it is full; give it more memory"),)
    )
    conditions = found(replace(observed(main=3), report=full))
    assert (conditions["RedisReachable"].status, conditions["RedisReachable"].reason) == ("True", "Full")
    assert (conditions["Stalled"].status, conditions["Stalled"].reason) == ("True", "Full")
    assert "give it more memory" in conditions["Ready"].message


@pytest.mark.parametrize(
    ("replicas", "scaling", "is_shown"),
    [(0, {}, True), (2, {}, False), (0, {"replicas": 0}, False)],
    ids=["none", "some", "none by its own scale"],
)
def test_an_external_queue_without_workers_names_the_command_for_the_first_one(
    observed: Look, replicas: int, scaling: Body, is_shown: bool
) -> None:
    # As after a suspension: an HPA never scales up from zero.
    look = observed(replicas=replicas, main=5, scaling={"mode": "External", **scaling})
    listed = plan(look, Memory(), now=0.0, clock=0.0).status["conditions"]
    (active,) = [one for one in listed if one["type"] == "ScalingActive"]
    assert active["reason"] == "External"
    command = "kubectl scale deployment thumbs-worker --namespace=media --replicas=1"
    assert (command in active["message"]) == is_shown


def test_starting_workers_do_not_make_the_queue_unready(observed: Look) -> None:
    conditions = found(observed(replicas=1, pods=[pod_body("a", ready=False)]), wanted=1)
    assert (conditions["Ready"].status, conditions["Ready"].reason) == ("True", "WorkersStarting")
    assert conditions["WorkersAvailable"].status == "False"


@pytest.mark.parametrize(
    ("reason", "field"),
    [
        ("ImagePullBackOff", "spec.worker.image"),
        ("CrashLoopBackOff", "spec.worker.command"),
        ("CreateContainerConfigError", "spec.worker.env"),
    ],
)
def test_a_problem_that_the_kubelet_reports_is_shown_with_the_field_to_correct(
    observed: Look, reason: str, field: str
) -> None:
    conditions = found(observed(replicas=1, pods=[waiting("a", reason)]), wanted=1)
    assert conditions["WorkersAvailable"].reason == conditions["Ready"].reason == reason
    message = conditions["WorkersAvailable"].message
    assert message.startswith("0 of 1 workers are ready: pod a: container worker: it does not; ")
    assert field in message


def test_a_crash_loop_reports_how_the_previous_run_ended(observed: Look) -> None:
    body = waiting("a", "CrashLoopBackOff")
    ended = {"exitCode": 127, "reason": "StartError", "message": "nosuch: not found"}
    body["status"]["containerStatuses"][0]["lastState"] = {"terminated": ended}
    message = found(observed(replicas=1, pods=[body]), wanted=1)["WorkersAvailable"].message
    assert "its previous run ended with exit code 127 (StartError: nosuch: not found)" in message
    assert "kubectl logs a --container=worker --previous" in message


def test_a_stuck_rollout_is_reported_while_old_workers_are_ready(observed: Look) -> None:
    new = waiting("b", "ErrImagePull")
    new["metadata"] |= {"creationTimestamp": "2026-01-01T00:00:09Z"}
    new["metadata"]["labels"]["pod-template-hash"] = "bbb"
    look = observed(replicas=1, pods=[pod_body("a"), new])
    conditions = found(look, wanted=1)
    for kind in ("WorkersAvailable", "Ready"):
        assert (conditions[kind].status, conditions[kind].reason) == ("True", "RolloutBlocked")
        assert "ErrImagePull: pod b: container worker: it does not; correct spec.worker.image" in (
            conditions[kind].message
        )


def test_a_stuck_old_template_is_not_reported_once_the_new_one_works(observed: Look) -> None:
    new = pod_body("b", revision="bbb", created="2026-01-01T00:00:09Z")
    look = observed(replicas=1, pods=[waiting("a", "ErrImagePull"), new])
    assert found(look, wanted=1)["WorkersAvailable"].reason == "AllReady"


def test_advice_names_the_field_of_the_container_that_is_in_trouble() -> None:
    image = "ImagePullBackOff"
    assert "spec.worker.image" in advice(image, "", "a", "worker")
    assert "spec.sidecar.image" in advice(image, "", "a", "claimq-sidecar")
    assert 'the image of "proxy" in spec.worker.template' in advice(image, "", "a", "proxy")
    assert "spec.worker.resources.requests" in advice("Unschedulable", "", "a")
    assert advice("SomethingNew", "", "a", "worker") == ""


@pytest.mark.parametrize(
    ("reason", "message", "container", "fix"),
    [
        (
            "FailedCreate",
            'pods "a" is forbidden: failed quota: q: must specify limits.cpu for: claimq-sidecar,worker',
            "",
            "set the named values of the container claimq-sidecar in spec.sidecar.resources",
        ),
        (
            "FailedCreate",
            "minimum memory usage per Container is 100Mi, but request is 64Mi",
            "",
            "spec.sidecar.resources (the sidecar counts too)",
        ),
        (
            "CreateContainerConfigError",
            "container worker: container has runAsNonRoot and image will run as root",
            "worker",
            "worker pods may not run as root: use an image whose user is a number above 0",
        ),
        (
            "CrashLoopBackOff",
            "back-off; its previous run ended with exit code 0 (Completed)",
            "worker",
            "a worker must not end by itself",
        ),
        (
            "CrashLoopBackOff",
            "back-off",
            "claimq-sidecar",
            "spec.sidecar (image, port or resources)",
        ),
    ],
    ids=["quota", "limits", "root", "ends", "sidecar"],
)
def test_advice_follows_the_words_of_the_cluster(reason: str, message: str, container: str, fix: str) -> None:
    assert fix in advice(reason, message, "a", container)


def test_a_quota_that_rejects_pods_is_reported(observed: Look) -> None:
    look = observed(replicas=1)
    failure = {
        "type": "ReplicaFailure",
        "status": "True",
        "reason": "FailedCreate",
        "message": "exceeded quota",
    }
    deployment = {**deployment_body(look.workers.replicas), "status": {"conditions": [failure]}}
    condition = found(deployed(look, deployment), wanted=1)["WorkersAvailable"]
    assert (condition.reason, condition.message) == (
        "FailedCreate",
        (
            "0 of 1 workers are ready: exceeded quota; correct spec.worker.template, spec.worker.resources or "
            "spec.sidecar.resources (the sidecar counts too), or change the namespace's quota, limits or Pod Security "
            "level to admit the pods"
        ),
    )


def test_an_unreachable_server_is_reported_and_requires_no_action(observed: Look) -> None:
    look = replace(observed(unknown=True), redis_fault=Fault("Unreachable", "no answer"))
    conditions = found(look)
    assert (conditions["RedisReachable"].status, conditions["Ready"].reason) == ("False", "Unreachable")
    assert "is kept" in conditions["RedisReachable"].message
    assert conditions["Stalled"].status == "False"


def test_a_missing_secret_stalls_the_queue(observed: Look) -> None:
    fault = Fault("SecretMissing", "create it", needs_action=True)
    conditions = found(replace(observed(unknown=True), redis_fault=fault))
    assert (conditions["Stalled"].status, conditions["Stalled"].reason) == ("True", "SecretMissing")


def test_a_child_that_the_api_server_rejects_stalls_the_queue(observed: Look) -> None:
    refusal = Fault("ChildInvalid", "the template is not valid", needs_action=True)
    conditions = found(with_workers(observed(), refusal=refusal))
    assert conditions["Ready"].message == "the template is not valid"


def test_unsafe_settings_of_a_reachable_server_are_reported(observed: Look) -> None:
    report = ServerReport(
        "valkey", "9.1", "standalone", (ServerWarning("NoAppendOnly", "set appendonly yes"),)
    )
    condition = found(replace(observed(), report=report))["RedisReachable"]
    assert (condition.status, condition.reason) == ("True", "ReachableWithWarnings")
    assert "set appendonly yes" in condition.message


def test_a_pause_by_hand_and_a_suspend_have_different_reasons(observed: Look) -> None:
    assert found(observed(seen=snapshot(paused=True)))["Suspended"].reason == "PausedByHand"
    assert found(observed(suspend=True, seen=snapshot(paused=True)))["Suspended"].reason == "SpecSuspend"


def test_a_queue_that_its_app_has_closed_is_ready_with_a_reason_of_its_own(observed: Look) -> None:
    pause = Pause(0.0, 60.0, "pod-1", "quota", by_app=True)
    conditions = found(observed(seen=snapshot(paused=True, pauses=(pause,))))
    assert conditions["Suspended"].message == (
        "the queue is closed by its app in pod-1 since 1970-01-01T00:00:00Z until 1970-01-01T00:01:00Z (quota); "
        "resume it with `claimq -n media resume thumbs`"
    )
    for type_ in ("Suspended", "Progressing", "Ready"):
        assert (conditions[type_].status, conditions[type_].reason) == ("True", "ClosedByApp")


def test_a_pause_is_reported_with_who_when_why_and_until_when(observed: Look) -> None:
    look = observed(seen=snapshot(paused=True, pauses=(Pause(0.0, 3600.0, "ann@host", "new\nschema"),)))
    assert found(look)["Suspended"].message == (
        "the queue is paused by ann@host since 1970-01-01T00:00:00Z until 1970-01-01T01:00:00Z (new schema); "
        "resume it with `claimq -n media resume thumbs`"
    )


@pytest.mark.parametrize(
    ("pause", "is_forgotten"),
    [
        (Pause(at=100_000.0 - 86_400), True),
        (Pause(at=100_000.0 - 86_399), False),
        (Pause(at=1.0, until=100_001.0), False),
        (Pause(), False),
    ],
    ids=["a day", "almost a day", "with an end", "of an unknown age"],
)
def test_a_pause_without_an_end_is_forgotten_after_a_day(
    observed: Look, pause: Pause, is_forgotten: bool
) -> None:
    conditions = found(observed(seen=snapshot(paused=True, now=100_000.0, pauses=(pause,))))
    assert ("PauseForgotten" in conditions) == is_forgotten
    if is_forgotten:
        assert conditions["PauseForgotten"].reason == "PausedByHand"
        message = conditions["PauseForgotten"].message
        assert "the queue is paused since 1970" in message
        assert "`claimq -n media pause thumbs --for 8h`" in message


def test_a_queue_that_is_suspended_or_paused_on_purpose_is_ready(observed: Look) -> None:
    for look, reason in (
        (observed(seen=snapshot(paused=True)), "PausedByHand"),
        (observed(suspend=True, seen=snapshot(paused=True)), "SpecSuspend"),
    ):
        ready = found(look)["Ready"]
        assert (ready.status, ready.reason) == ("True", reason)


def test_what_only_the_server_knows_is_unknown_in_an_outage(observed: Look) -> None:
    """A queue that was paused by hand, or that has too few workers, still is when its server is down."""

    def conditions(look: Observed) -> dict[str, str]:
        listed = plan(look, Memory(), now=0.0, clock=0.0).status["conditions"]
        return {one["type"]: f"{one['status']} {one['reason']}" for one in listed}

    fault = Fault("Unreachable", "no answer")
    outage = conditions(replace(observed(unknown=True, replicas=2), redis_fault=fault))
    assert (outage["Suspended"], outage["ScalingLimited"]) == ("Unknown Unknown", "Unknown Unknown")
    assert outage["Ready"] == "False Unreachable"
    fixed = replace(observed(unknown=True, suspend=True), redis_fault=fault)
    assert conditions(fixed)["Suspended"] == "True SpecSuspend"
    assert conditions(fixed)["ScalingLimited"] == "False NotLimited"


def test_parts_that_were_not_injected_into_the_app_are_reported(observed: Look) -> None:
    look = with_workers(observed(), left_out=("the app has its own preStop hook",))
    message = found(look)["WorkersAvailable"].message
    assert message.endswith("the app has its own preStop hook")


def test_a_condition_keeps_its_transition_time_while_its_status_stays() -> None:
    before = [{"type": "Ready", "status": "True", "lastTransitionTime": "2025-01-01T00:00:00Z"}]
    same = with_transition_times(
        [Condition("Ready", "True", "New", "m")], before, generation=4, now_text="now"
    )
    other = with_transition_times(
        [Condition("Ready", "False", "New", "m")], before, generation=4, now_text="now"
    )
    assert (same[0]["lastTransitionTime"], other[0]["lastTransitionTime"]) == ("2025-01-01T00:00:00Z", "now")
    assert same[0]["observedGeneration"] == 4


def test_reasons_are_words_and_messages_fit(observed: Look) -> None:
    look = replace(observed(unknown=True), redis_fault=Fault("Unreachable", "x" * 5000))
    for one in found(look).values():
        assert one.reason.isalpha()
        assert one.reason[0].isupper()
        assert 0 < len(one.message) <= 1024


def test_a_maximum_that_is_too_low_is_reported_with_the_number_it_would_take(observed: Look) -> None:
    look = observed(replicas=2, main=5000, age=100.0, scaling={"maxReplicas": 2, "targetAge": "30s"})
    listed = plan(look, Memory(), now=0.0, clock=0.0).status["conditions"]
    (limited,) = [one for one in listed if one["type"] == "ScalingLimited"]
    assert (limited["status"], limited["reason"]) == ("True", "MaxReplicas")
    needed = int(limited["message"].split()[0])
    assert needed > 100
    assert "spec.scaling.maxReplicas is 2: raise it" in limited["message"]


def test_workers_that_start_slower_than_the_target_are_reported(observed: Look) -> None:
    look = observed(main=1, scaling={"targetAge": "10s"})
    learned = {"estimates": {"startSeconds": 42.0, "starts": 3}}
    look = replace(look, resource=replace(look.resource, status={"scaling": learned}))
    listed = plan(look, Memory(), now=0.0, clock=0.0).status["conditions"]
    (limited,) = [one for one in listed if one["type"] == "ScalingLimited"]
    assert (limited["status"], limited["reason"]) == ("True", "SlowStart")
    assert "a worker takes 42s to start, longer than spec.scaling.targetAge (10s)" in limited["message"]


def test_a_queue_at_its_maximum_stays_limited_until_fewer_workers_are_wanted(observed: Look) -> None:
    scaling = {"maxReplicas": 2, "targetAge": "30s"}

    def limited(look: Observed, before: Body | None) -> Body:
        resource = replace(look.resource, status=before or {})
        return plan(replace(look, resource=resource), Memory(), now=0.0, clock=0.0).status

    def condition(status: Body) -> tuple[str, str]:
        (found,) = [one for one in status["conditions"] if one["type"] == "ScalingLimited"]
        return found["status"], found["reason"]

    first = limited(observed(replicas=2, main=5000, age=100.0, scaling=scaling), None)
    assert condition(first) == ("True", "MaxReplicas")
    pods = [pod_body("a"), pod_body("b")]
    held = observed(replicas=2, pods=pods, main=1, age=1.0, scaling=scaling)
    assert condition(limited(held, first)) == ("True", "MaxReplicas"), "it is still at the maximum"
    assert condition(limited(held, None))[0] == "False"
    assert condition(limited(observed(replicas=0, scaling=scaling), first))[0] == "False"


def scaling_active(status: Body) -> tuple[str, str, str]:
    (found,) = [one for one in status["conditions"] if one["type"] == "ScalingActive"]
    return found["status"], found["reason"], found["message"]


def with_owner(look: Observed, manager: str) -> Observed:
    """The observation, with the Deployment's number of replicas set by this field manager."""
    return deployed(look, deployment_body(look.workers.replicas, owner=manager))


def test_another_owner_of_the_number_is_reported_for_a_while_and_named(observed: Look) -> None:
    look = observed(replicas=3, main=5)
    first = plan(with_owner(look, "kube-controller-manager"), Memory(), now=0.0, clock=0.0)
    status, reason, message = scaling_active(first.status)
    assert (status, reason) == ("True", "Contested")
    assert '"kube-controller-manager" also sets the number of replicas' in message
    ours = with_owner(look, "claimq-scale")
    later = plan(ours, first.memory, now=0.0, clock=599.9)
    assert scaling_active(later.status)[1] == "Contested", "the operator has just set it back"
    for clock, expected in ((0.0, "Contested"), (600.0, "Auto"), (-1.0, "Auto")):
        then = plan(ours, later.memory, now=0.0, clock=clock)
        assert scaling_active(then.status)[1] == expected


def test_owners_that_are_no_contest_are_not_reported(observed: Look) -> None:
    auto, external = observed(replicas=3, main=5), observed(replicas=3, scaling={"mode": "External"})
    for look, manager in (
        (auto, "claimq-operator"),
        (auto, "claimq-scale"),
        (auto, "before-first-apply"),
        (external, "kube-controller-manager"),
    ):
        status = plan(with_owner(look, manager), Memory(), now=0.0, clock=0.0).status
        assert scaling_active(status)[1] in ("Auto", "External")
