"""What `claimq doctor` decides from objects of Kubernetes, reports of a server and the state of a queue."""

from collections.abc import Mapping
from typing import Any

import pytest

from claimq.limits import Pause
from claimq.model import COUNTERS, ServerReport, ServerWarning, Snapshot, State, WorkerInfo
from claimq.policy import FailedPolicy, MaxWaiting, Policy
from claimq_admin.errors import CommandError
from claimq_cli.commands.checking.cluster_checks import (
    PERMISSIONS,
    definition_check,
    image_check,
    permission_checks,
    release_checks,
    status_checks,
)
from claimq_cli.commands.checking.diagnosis import Check, Commands, failed, has_problem
from claimq_cli.commands.checking.server_checks import (
    ObservedQueue,
    clock_check,
    memory_check,
    queue_checks,
    report_checks,
)

COMMANDS = Commands("claimq -n shop", "kubectl -n shop")
GOOD = {
    "Ready": ("True", "Working"),
    "RedisReachable": ("True", "Reachable"),
    "WorkersAvailable": ("True", "AllReady"),
    "ScalingActive": ("True", "Auto"),
    "ScalingLimited": ("False", "NotLimited"),
    "Stalled": ("False", "NotStalled"),
    "Suspended": ("False", "NotSuspended"),
}
NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z


def body(changed: Mapping[str, tuple[str, str]] = {}, *, generation: int = 1) -> dict[str, Any]:
    conditions = [
        {"type": kind, "status": status, "reason": reason, "message": f"about {reason}"}
        for kind, (status, reason) in {**GOOD, **changed}.items()
    ]
    status = {"observedGeneration": 1, "conditions": conditions, "workers": {"summary": "2/2"}}
    return {"metadata": {"name": "thumbs", "generation": generation}, "status": status}


def states(checks: list[Check]) -> list[str]:
    return [one.state.value for one in checks]


def test_the_definition_must_serve_the_version_of_the_command() -> None:
    assert definition_check({"versions": [{"version": "v2"}, {"version": "v1alpha1"}]}).state == "ok"
    absent = definition_check(None)
    assert (absent.state, absent.message) == ("problem", "it is not installed")
    other = definition_check({"versions": [{"version": "v2"}]})
    assert other.state == "problem"
    assert "serves v2, and this command reads v1alpha1" in other.message


def test_a_missing_permission_is_a_warning_with_what_does_not_work() -> None:
    assert states(permission_checks([])) == ["ok"]
    (one,) = permission_checks([PERMISSIONS[-1]])
    assert one.state == "warning"
    assert "create pods/portforward: a server inside the cluster cannot be reached" in one.message


def test_a_queue_without_status_or_with_an_old_one_has_no_operator() -> None:
    (without,) = status_checks({"metadata": {"name": "thumbs", "generation": 1}}, COMMANDS)
    assert (without.state, without.check) == ("problem", "ReliableQueue thumbs")
    assert "no operator works on it" in without.message
    (old,) = status_checks(body(generation=2), COMMANDS)
    assert (old.state, "of generation 1 and the object has 2" in old.message) == ("problem", True)
    (good,) = status_checks(body(), COMMANDS)
    assert (good.state, good.message) == ("ok", "all conditions are good, 2/2 workers are ready")


@pytest.mark.parametrize(
    ("changed", "state", "text", "fix"),
    [
        ({"RedisReachable": ("False", "Unreachable")}, "problem", "about Unreachable", "#redisreachable"),
        ({"RedisReachable": ("True", "ReachableWithWarnings")}, "warning", "RedisReachable", "describe rq thumbs"),
        ({"WorkersAvailable": ("False", "CrashLoopBackOff")}, "problem", "CrashLoopBackOff", "#workersavailable"),
        ({"WorkersAvailable": ("False", "Starting")}, "warning", "Starting", "kubectl -n shop describe"),
        ({"Stalled": ("True", "SpecInvalid")}, "problem", "Stalled SpecInvalid", "#stalled"),
        ({"Stalled": ("True", "ChildNotOurs")}, "problem", "ChildNotOurs", "delete or rename the object"),
        ({"Stalled": ("True", "OwnedByAnother")}, "problem", "OwnedByAnother", "use another `queueName`, or"),
        ({"Stalled": ("True", "OfALaterRelease")}, "problem", "OfALaterRelease", "as the message says; kubectl"),
        ({"Suspended": ("True", "PausedByHand")}, "warning", "PausedByHand", "claimq -n shop resume thumbs"),
        ({"Suspended": ("True", "ClosedByApp")}, "warning", "ClosedByApp", "claimq -n shop resume thumbs"),
        ({"Suspended": ("True", "SpecSuspend")}, "warning", "Spec", '\'{"spec":{"suspend":false}}\''),
        ({"ScalingActive": ("False", "Paused")}, "warning", "Paused", "claimq.dev/pause-reconcile-"),
        ({"Progressing": ("False", "NoProgress")}, "problem", "NoProgress", "drain NAME WORKER"),
        ({"Progressing": ("True", "ItemMayHang")}, "warning", "ItemMayHang", "and set `processingTimeout`"),
        ({"ScalingLimited": ("True", "MaxReplicas")}, "warning", "MaxReplicas", "claimq -n shop why thumbs"),
        ({"PauseForgotten": ("True", "PausedByHand")}, "warning", "PauseForgotten", "claimq -n shop resume thumbs"),
        ({"Full": ("True", "MaxWaiting")}, "warning", "Full", "claimq -n shop clients thumbs; add workers, or raise"),
        ({"NoisyNeighbour": ("True", "ClientTakesSlots")}, "warning", "NoisyNeighbour", "as the message says; kubectl"),
        ({"OperatorConflict": ("True", "OthersStandBy")}, "warning", "OthersStandBy", "#operatorconflict"),
    ],
)  # fmt: skip
def test_a_condition_that_is_not_good(
    changed: dict[str, tuple[str, str]], state: str, text: str, fix: str
) -> None:
    (one,) = status_checks(body(changed), COMMANDS)
    assert one.state == state
    assert text in one.message
    assert fix in one.fix


def test_the_fix_for_a_worker_that_hangs_is_the_command_of_the_message() -> None:
    stuck = body({"Progressing": ("False", "NoProgress")})
    drain = "if it hangs, replace it: claimq -n shop drain thumbs a; the same for b"
    stuck["status"]["conditions"][-1]["message"] = f"no progress; {drain}"
    (one,) = status_checks(stuck, COMMANDS)
    assert (one.message, one.fix) == ("Progressing NoProgress: no progress", drain)


def test_two_conditions_with_the_same_reason_are_one_problem() -> None:
    changed = {"Stalled": ("True", "SecretMissing"), "RedisReachable": ("False", "SecretMissing")}
    assert states(status_checks(body(changed | {"ScalingActive": ("False", "Unknown")}), COMMANDS)) == [
        "problem"
    ]
    both = status_checks(body(changed, generation=2), COMMANDS)
    assert states(both) == ["problem", "problem"]


def test_an_outage_of_the_server_is_one_problem() -> None:
    unknown = dict.fromkeys(("Suspended", "ScalingLimited"), ("Unknown", "Unknown"))
    outage = {"RedisReachable": ("False", "Unreachable"), "ScalingActive": ("False", "Unknown"), **unknown}
    assert states(status_checks(body(outage), COMMANDS)) == ["problem"]


def deployment(name: str, image: str) -> dict[str, Any]:
    containers = {
        "containers": [{"name": "worker", "image": f"app-{name}"}],
        "initContainers": [{"name": "claimq-sidecar", "image": image}],
    }
    return {"metadata": {"name": name}, "spec": {"template": {"spec": containers}}}


def test_different_sidecar_images_are_a_warning() -> None:
    same = image_check([deployment("a", "sidecar:2"), deployment("b", "sidecar:2")], COMMANDS)
    assert (same.state, "sidecar:2" in same.message) == ("ok", True)
    assert image_check([], COMMANDS).state == "ok"
    mixed = image_check([deployment("a", "sidecar:2"), deployment("b", "sidecar:1")], COMMANDS)
    assert mixed.state == "warning"
    assert "sidecar:1: b; sidecar:2: a" in mixed.message


@pytest.mark.parametrize(
    ("operators", "crd", "expected", "words"),
    [
        (["1.2.9"], "1.2.0", ["ok"], "this command and the operator and the CRD are of claimq 1.2.3"),
        (["1.2.3"], "", ["ok"], "this command and the operator are of"),
        ([], "1.2.3", ["ok"], "this command and the CRD are of"),
        ([], "", [], ""),
        (["1.3.0", "1.2.0"], "", ["warning"], "operator that applied q0 is of 1.3.0; install the command"),
        (["1.20.3"], "", ["warning"], "install the command from a clone of release 1.20.3"),
        (["1.1.9"], "", ["warning"], "is of 1.1.9; upgrade the chart (charts/claimq/README.md#upgrade), or install"),
        (["2.2.3"], "", ["warning"], "is of 2.2.3; install the command"),
        ([""] * 5, "", ["warning"], "operator that applied q0, q1, q2, ... has not written its release"),
        (["1.2.3"], "1.1.0", ["warning"], "this command is claimq 1.2.3, and the CRD is of 1.1.0; install or"),
        (["1.1.0"], "2.0.0", ["warning", "warning"], "is of 1.1.0"),
    ],
)  # fmt: skip
def test_an_operator_or_a_definition_of_another_minor_version_is_a_warning(
    operators: list[str], crd: str, expected: list[str], words: str
) -> None:
    deployments = [
        {"metadata": {"name": f"q{n}", "labels": {"claimq.dev/operator-version": one} if one else {}}}
        for n, one in enumerate(operators)
    ]
    definition = {"metadata": {"labels": {"app.kubernetes.io/version": crd}}} if crd else {}
    found = release_checks(deployments, definition, "1.2.3")
    assert states(found) == expected
    assert words in (f"{found[0].message}; {found[0].fix}" if found else "")
    assert release_checks(deployments, definition, "") == []


def test_only_settings_that_lose_items_or_stop_queues_are_problems() -> None:
    given = (ServerWarning("NoAppendOnly", "appendonly is off"), ServerWarning("EvictionPolicy", "evicts"))
    found = report_checks("server", ServerReport("valkey", "9.0.1", "standalone", given))
    assert states(found) == ["ok", "warning", "problem"]
    assert found[0].message == "reachable: valkey 9.0.1, standalone"
    assert found[2].message == "EvictionPolicy: evicts"
    assert "CONFIG SET maxmemory-policy noeviction" in found[2].fix
    assert states(report_checks("server", ServerReport("redis", "7.2", "cluster"))) == ["ok", "ok"]


@pytest.mark.parametrize(
    ("server_now", "state", "words"),
    [
        (100.5, "ok", "less than 5 s"),
        (105.9, "ok", "less than"),
        (106.5, "warning", "5.5 s ahead of"),
        (95.0, "ok", "less than"),
        (90.0, "warning", "10 s behind"),
    ],
)
def test_the_clocks_may_differ_by_five_seconds(server_now: float, state: str, words: str) -> None:
    one = clock_check("server", server_now, 100.0, 101.0)
    assert (one.state, words in one.message) == (state, True)


def test_memory_is_a_warning_before_it_is_full() -> None:
    assert [memory_check("server", share).state for share in (None, 0.8, 0.81)] == ["ok", "ok", "warning"]


def queue(
    main: int = 0,
    *,
    age: float | None = None,
    failed_items: int = 0,
    paused: bool = False,
    pauses: tuple[Pause, ...] = (),
    workers: tuple[WorkerInfo, ...] = (),
    reasons: dict[str, int] | None = None,
    enqueued: int = 0,
    policy: Policy | None = None,
    memory: int = 0,
    waiting_bytes: int | None = None,
    unready: str = "",
) -> list[Check]:
    lengths = {State.MAIN: main, State.BUSY: 0, State.DELAYED: 0, State.FAILED: failed_items}
    ages = {**dict.fromkeys(State), State.MAIN: age}
    snapshot = Snapshot(
        1000.0,
        1,
        lengths,
        ages,
        dict.fromkeys(COUNTERS, 0) | {"enqueued": enqueued},
        None,
        paused,
        pauses=pauses,
        waiting_bytes=waiting_bytes,
    )
    observed = ObservedQueue(snapshot, workers, policy or Policy(), reasons or {}, memory, unready)
    return queue_checks("q", observed, COMMANDS)


LIVE = WorkerInfo("w", 0, 999.0)


def test_an_empty_queue_is_fine() -> None:
    assert states(queue()) == ["ok"] * 7
    assert states(queue(5, age=10.0, workers=(LIVE,))) == ["ok"] * 7


def test_items_that_are_missing_or_too_many_are_a_problem() -> None:
    missing = queue(5, enqueued=8)[4]
    assert (missing.check, missing.state, missing.message) == ("queue q: books", "problem", "3 items missing")
    assert queue(failed_items=2)[4].message == "2 items that no call has added"


def test_a_queue_near_its_bound_is_a_warning_and_one_without_gets_advice() -> None:
    def check(main: int, most: int | None, memory: int = 0) -> Check:
        rows = queue(main, workers=(LIVE,), policy=Policy(max_waiting=MaxWaiting(items=most)), memory=memory)
        (one,) = [one for one in rows if one.check == "queue q: bound"]
        return one

    advice = "none; to keep producers from filling the server{}: claimq -n shop policy q max_waiting_bytes={}"
    assert check(5, None).message == advice.format("", "64Mi")
    assert check(5, None, 2**30).message == advice.format(", which has 1Gi", "256Mi")
    assert (check(1799, 2000).state, check(1799, 2000).message) == ("ok", "1,799 of at most 2,000 items wait")
    full = check(1800, 2000)
    assert (full.state, full.message) == (
        "warning",
        "1,800 of at most 2,000 items wait, so new ones are refused",
    )
    assert full.fix.endswith("a higher bound: claimq -n shop policy q max_waiting_items=4000")


def test_failed_items_that_push_older_ones_out_are_named() -> None:
    policy = Policy(failed=FailedPolicy(max_items=5))
    assert queue(failed_items=4, reasons={"x": 4}, policy=policy)[2].message == '4 items: 4 "x"'
    full = queue(failed_items=5, reasons={"x": 5}, policy=policy)[2]
    assert full.message == (
        '5 items: 5 "x"; no more are kept (failed_max_items=5), so each failure removes the oldest'
    )
    assert full.fix.endswith("; those that are removed: claimq -n shop failed removed q")


def test_a_queue_near_its_bound_of_bytes_is_a_warning_with_a_higher_one() -> None:
    def check(waiting: int) -> Check:
        policy = Policy(max_waiting=MaxWaiting(items=9, bytes=2**20))
        rows = queue(5, workers=(LIVE,), policy=policy, waiting_bytes=waiting)
        (one,) = [one for one in rows if one.check == "queue q: bound"]
        return one

    text = "5 of at most 9 items wait, {} of at most 1,048,576 bytes wait"
    assert (check(900_000).state, check(900_000).message) == ("ok", text.format("900,000"))
    full = check(950_000)
    assert (full.state, full.message) == ("warning", text.format("950,000") + ", so new ones are refused")
    assert full.fix.endswith("a higher bound: claimq -n shop policy q max_waiting_bytes=2Mi")


def test_a_paused_queue_is_a_problem_only_if_items_wait() -> None:
    assert queue(paused=True)[0].state == "warning"
    paused = queue(2, age=1.0, paused=True, workers=(LIVE,))[0]
    assert (paused.state, paused.fix) == ("problem", "claimq -n shop resume q; or set spec.suspend to false")
    assert "no item is claimed; 2 items in main" in paused.message


def test_a_pause_by_hand_is_one_problem_whose_fix_is_its_end() -> None:
    claims, oldest, *_ = queue(2, age=3600.0, paused=True, pauses=(Pause(by="ann"),), workers=(LIVE,))
    assert (claims.fix, oldest.state) == ("claimq -n shop resume q", "ok")


def test_items_that_wait_without_a_live_worker_become_a_problem() -> None:
    silent = WorkerInfo("w", 0, 900.0)
    assert queue(1, age=30.0, workers=(silent,))[0].state == "warning"
    late = queue(1, age=61.0, workers=(silent,))[0]
    assert (late.state, late.message) == ("problem", "1 item in main and no live worker")
    assert "kubectl -n shop describe rq q" in late.fix
    assert queue(1, age=301.0, workers=(LIVE,))[1].state == "warning"


def test_the_worker_of_an_ended_local_mode_does_not_hide_that_none_is_ready_now() -> None:
    cause = "0 of 1 workers ready: its app exited with code 1"
    late = queue(1, age=61.0, workers=(LIVE,), unready=cause)[0]
    assert (late.state, late.message) == ("problem", f"1 item in main; {cause}")
    assert queue(0, age=None, workers=(LIVE,), unready=cause)[0].state == "warning"


def test_failed_items_are_counted_by_reason() -> None:
    reasons = {"no file": 5, "b": 4, "c": 2, "d": 1}
    found = queue(failed_items=12, reasons=reasons)[2]
    assert found.state == "warning"
    assert found.message == '12 items: 5 "no file", 4 "b", 2 "c" and 1 other reason'


def test_workers_that_do_not_renew_their_claims_are_named() -> None:
    assert queue(workers=(WorkerInfo("w", 2, 970.0),))[3].state == "ok"
    found = queue(workers=(WorkerInfo("w 1", 2, 969.0), WorkerInfo("v", 0, 1.0)))[3]
    assert found.state == "warning"
    assert found.message == "1 worker not seen within busyExpiry (30 s): w 1 with 2 items, last seen 31 s ago"
    assert found.fix.endswith("claimq -n shop release q 'w 1'")


def test_an_error_is_a_problem_unless_a_permission_is_missing() -> None:
    gone = failed("server", CommandError("kubectl: Error from server (NotFound): no"), "create it")
    assert (gone.state, gone.fix) == ("problem", "create it")
    denied = failed("server", CommandError("kubectl: Error from server (Forbidden): no"), "create it")
    assert (denied.state, "could not be checked" in denied.message) == ("warning", True)
    assert has_problem([denied, gone])
    assert not has_problem([denied])
    assert denied.lines[1].startswith("         fix: ask for the permission")
