"""The operator, Redis or the API server fails: workers go on, or continue when it is back."""

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager

import pytest

from clusterkit.commands import WAIT, eventually
from clusterkit.own_cluster import OwnCluster
from testkit.on_cluster import ledger
from testkit.on_cluster.containers import Container, running, unread_from
from testkit.on_cluster.queue_on_cluster import QueueOnCluster, queue_on
from testkit.on_cluster.release import Release
from testkit.on_cluster.servers_on_cluster import another_valkey, on_release

pytestmark = [pytest.mark.cluster, pytest.mark.own_cluster]

QUICK = {"stabilizationWindow": "0s", "period": "1s"}


def by_length(items: int, **more: object) -> dict[str, object]:
    """As many workers as the items ask for, whatever their age."""
    return {"itemsPerReplica": items, "targetAge": "1h", **more}


# Up to three workers and down again, each step alone: as often may a number change that is never taken back.
ONE_BY_ONE = 6


@pytest.fixture
def own(release: Release) -> OwnCluster:
    assert isinstance(release.cluster, OwnCluster)
    return release.cluster


def operator_of(release: Release) -> Container:
    (pod,) = release.pods()
    return running(release.cluster, release.namespace, pod, "operator")


def valkey_of(release: Release) -> Container:
    return running(release.cluster, release.namespace, f"{release.valkey}-0", "valkey")


def operator_restarts(release: Release) -> dict[str, int]:
    """Operators' pods to the restarts of their container."""
    return {
        name: pod["status"]["containerStatuses"][0]["restartCount"] for name, pod in release.pods().items()
    }


def assert_each_was_done_once(queue: QueueOnCluster, *, died: frozenset[str] = frozenset()) -> None:
    """By the server's counters and by the workers themselves. `died`: pods that were killed, who may have ended an
    item and not have come to write down what its verdict did."""
    seen, written = queue.counters(), queue.ledger()
    assert (seen["done"], seen["in failed"], seen["failed"]) == (len(queue.known), 0, 0)
    done, ended_by = written.times("done"), written.pods_of("ended")
    for item in queue.known:
        whole = done[item] == 1 or (done[item] == 0 and ended_by[item] & died)
        assert whole, [(entry.what, entry.pod, entry.at) for entry in written.entries if entry.item == item]


def assert_none_was_begun_twice(queue: QueueOnCluster) -> None:
    assert queue.ledger().times("began") == dict.fromkeys(queue.known, 1)


def are_ready(queue: QueueOnCluster) -> bool:
    """Whether the kubelet has said so of all workers: a moment after they have begun to claim."""
    return all(since for _, since in queue.lives().values())


def measured(what: str, since: float) -> None:
    print(f"{what}: {time.monotonic() - since:.1f} s")


# The operator.


@pytest.fixture
def without_back_off(release: Release) -> Iterator[None]:
    """The operator's pod is replaced at the end: the kubelet lets a container wait that has died often."""
    yield
    (pod,) = release.pods()
    release.cluster.kubectl("delete", "pod", pod, f"--namespace={release.namespace}", WAIT)
    release.wait_for_operators()


@pytest.mark.usefixtures("without_back_off")
def test_an_operator_killed_in_the_middle_of_passes_costs_nothing(
    queue: QueueOnCluster, release: Release, own: OwnCluster
) -> None:
    scaling = by_length(10, minReplicas=1, maxReplicas=3, scaleDown=QUICK)
    queue.apply(program=ledger.GATED, seconds=0.4, busyExpiry="10s", scaling=scaling)
    queue.enqueue(8, "first")
    victim = queue.wait_for_a_holder()

    # In the middle of its work on the server: it has asked, and waits for the answer.
    operator, valkey = operator_of(release), valkey_of(release)
    with valkey.frozen():
        asked = valkey.process()
        eventually("it asks", lambda: unread_from(asked, operator.address) > 0, every=0.02)
        operator.kill()
    queue.force_delete(victim)
    queue.enqueue(60, "second")
    operator = came_back(release, operator)

    # In the middle of a change of the cluster: it has asked for more workers, and waits for the answer.
    queue.wait("it looks after the queue again", lambda: queue.replicas() == 3)
    queue.open("first", "second", "third", "fourth")
    queue.wait_until_done()
    queue.wait("the workers go", lambda: queue.replicas() == 1)
    with own.frozen_apiserver() as api_server:
        queue.enqueue(40, "third")
        eventually("it asks", lambda: unread_from(api_server, operator.address) > 0, every=0.02)
        operator.kill()
    operator = came_back(release, operator)

    # Between a change and what follows from it.
    before = queue.generation()
    queue.enqueue(40, "fourth")
    queue.wait("it changes the number", lambda: queue.generation() > before, every=0.01)
    operator.kill()
    came_back(release, operator)
    since = time.monotonic()
    queue.wait_until_done()
    queue.wait("the status is right", queue.status_is_right)
    measured("operator back to all done and reported", since)
    assert_each_was_done_once(queue, died=frozenset({victim}))


def came_back(release: Release, killed: Container) -> Container:
    """The operator's next run, once it is ready."""
    since = time.monotonic()
    found: list[Container] = []

    def is_back() -> bool:
        found[:] = [operator_of(release)]
        (pod,) = release.pods().values()
        return found[0].number != killed.number and pod["status"]["containerStatuses"][0]["ready"]

    eventually("the operator is back", is_back, every=0.2)
    measured("operator killed to ready (the kubelet's back-off counted)", since)
    return found[0]


@contextmanager
def two_that_act(release: Release) -> Generator[None]:
    """Two operators that do not ask each other who works."""
    deployment, where = f"deployment/{release.operator}", f"--namespace={release.namespace}"
    kubectl = release.cluster.kubectl
    try:
        kubectl("set", "env", deployment, where, "CLAIMQ_LEADER_ELECTION=false")
        kubectl("scale", deployment, where, "--replicas=2")
        release.wait_for_operators(2)
        yield
        for pod in release.pods():
            assert "claimq_leader 1.0" in metrics_of(release, pod), f"{pod} did not act"
    finally:
        kubectl("scale", deployment, where, "--replicas=1")
        kubectl("set", "env", deployment, where, "CLAIMQ_LEADER_ELECTION-")
        release.wait_for_operators()


def changes_under_load(queue: QueueOnCluster) -> int:
    """From no workers to three and back to none; how often the Deployment was changed for it."""
    before = queue.generation()
    queue.enqueue(45)
    queue.wait("there are three", lambda: queue.replicas() == 3)
    queue.wait_until_done()
    queue.wait("there is none", lambda: queue.replicas() == 0)
    return queue.generation() - before


def test_two_operators_that_both_act_do_what_one_does(queue: QueueOnCluster, release: Release) -> None:
    scaling = by_length(10, maxReplicas=3, idleAfter="1s", scaleDown=QUICK)
    queue.apply(program=ledger.GATED, seconds=0.4, busyExpiry="30s", scaling=scaling)
    queue.open("item", "after it")
    queue.wait("the Deployment is there", lambda: queue.replicas() == 0)
    by_one = changes_under_load(queue)
    with two_that_act(release):
        by_two = changes_under_load(queue)
        print(f"changes of the number of workers: {by_one} by one operator, {by_two} by two")
        assert by_two <= max(1.5 * by_one, ONE_BY_ONE)

        # Claims that no worker renews, before there is a worker; then an app that dies: both operators see either.
        queue.wait("the last worker has gone", lambda: not queue.pods())
        queue.enqueue(3, "of a dead holder")
        assert len(queue.items.claim(3, wait=0)) == 3
        queue.enqueue(30, "of workers")
        queue.kill_container(a_worker_with_items(queue))
        queue.open("of workers", "of a dead holder")
        queue.wait_until_done()
        seen = queue.counters()
        assert (seen["expired"], seen["crashes"] - 3) == (3, 1), "its one item went back, once"

        # A rollout: both apply the same.
        queue.patch({"scaling": {"minReplicas": 2}})
        queue.enqueue(40, "in a rollout")
        queue.wait("two have items", lambda: len(queue.holders()) >= 2)
        old = set(queue.pods())
        queue.patch({"worker": {"template": {"metadata": {"annotations": {"round": "two"}}}}})
        queue.open("in a rollout")
        queue.wait("all workers are new", lambda: not old & set(queue.pods()) and len(queue.pods()) >= 2)
        queue.enqueue(10, "after it")
        queue.wait_until_done()
        queue.wait("the status is right", queue.status_is_right)
        assert_each_was_done_once(queue)
        assert queue.counters()["crashes"] == seen["crashes"]


def a_worker_with_items(queue: QueueOnCluster) -> str:
    """A pod; not the holder that is none."""
    found: set[str] = set()

    def is_there() -> bool:
        found.update(queue.holders().keys() & queue.pods().keys())
        return bool(found)

    queue.wait("a worker has items", is_there, every=0.05)
    return found.pop()


def metrics_of(release: Release, pod: str) -> str:
    read = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:8080/metrics').read().decode())"
    words = ("exec", pod, f"--namespace={release.namespace}", "--", "python", "-c", read)
    return release.cluster.kubectl(*words)


# The server of the items.


def test_workers_outlive_a_restart_of_their_server(queue: QueueOnCluster, release: Release) -> None:
    queue.apply(program=ledger.GATED, seconds=1, scaling={"minReplicas": 2, "maxReplicas": 2})
    queue.enqueue(30)
    queue.wait("both have items and are ready", lambda: len(queue.holders()) == 2 and are_ready(queue))
    lives, operators = queue.lives(), operator_restarts(release)
    valkey = valkey_of(release)
    queue.open("item", "afterwards")
    since = time.monotonic()
    valkey.kill()
    queue.wait("it answers again", queue.counters, every=0.1)
    measured("server killed to its first answer", since)
    queue.wait("it is another run of it", lambda: valkey_of(release).number != valkey.number)
    answered, done = time.monotonic(), queue.counters()["done"]
    queue.enqueue(4, "afterwards")
    queue.wait("work goes on", lambda: queue.counters()["done"] > done, every=0.05)
    measured("server's first answer to the next item done", answered)
    queue.wait_until_done()
    queue.wait("the status is right", queue.status_is_right)
    assert_each_was_done_once(queue)
    assert_none_was_begun_twice(queue)
    seen = queue.counters()
    assert (seen["crashes"], seen["expired"]) == (0, 0)
    assert (queue.lives(), operator_restarts(release)) == (lives, operators)


def test_a_minute_without_the_server_is_waited_out(release: Release, team: str) -> None:
    scaling = by_length(4, maxReplicas=2, idleAfter="5s", scaleDown=QUICK)
    with (
        another_valkey(release, team) as other,
        on_release(release) as own,
        queue_on(release, team, "cut", server=own, notes=other) as cut,
        queue_on(release, team, "beside", server=other) as beside,
    ):
        # Leases are far shorter than the outage, and apps end items (and ask for more) while it lasts.
        cut.apply(program=ledger.GATED, seconds=3, busyExpiry="24s", scaling=scaling)
        beside.apply(seconds=0.5, scaling={"minReplicas": 1, "maxReplicas": 1})
        cut.enqueue(6, "first")
        cut.enqueue(18, "second")
        beside.enqueue(60)
        cut.wait("both have items and are ready", lambda: len(cut.holders()) == 2 and are_ready(cut))
        cut.wait("the status is right", cut.status_is_right)
        cut.wait("it counts both", lambda: cut.get()["status"]["workers"]["busy"] == 2)
        lives, generation = cut.lives(), cut.generation()
        with valkey_of(release).frozen():
            since = time.monotonic()
            cut.open("first")
            cut.wait("it is reported", lambda: cut.condition("RedisReachable") == "False Unreachable")
            measured("server silent to RedisReachable=False", since)
            status = cut.get()["status"]
            assert (status["items"]["main"], status["items"]["busy"]) == (22, 2)
            assert cut.condition("ScalingActive") == "False Unknown"
            beside.enqueue(20, "added")
            # The outage is to last this long: nothing is waited for.
            while time.monotonic() - since < 61:
                assert (cut.replicas(), cut.generation()) == (2, generation)
                time.sleep(1)
            held = cut.get()["status"]
            assert (held["items"], held["workers"]) == (status["items"], status["workers"])
            assert held["workers"]["busy"] == 2
            row = cut.row()
            numbers = [str(status["items"][state]) for state in ("main", "busy")]
            assert [row["READY"], row["MAIN"], row["BUSY"], row["WORKERS"]] == ["False", *numbers, "2/2"]
            assert cut.condition("RedisReachable") == "False Unreachable"
            beside.wait_until_done()
            beside.wait("it is reported", lambda: beside.condition("Ready") == "True Working")
        since = time.monotonic()
        cut.wait("work goes on", lambda: cut.counters()["done"] > 0, every=0.05)
        measured("server's first answer to the next item done", since)
        cut.wait("it is reported", lambda: cut.condition("RedisReachable").startswith("True"))
        measured("server's first answer to RedisReachable=True", since)
        assert cut.lives() == lives
        cut.open("second")
        for queue in (cut, beside):
            queue.wait_until_done()
            assert_each_was_done_once(queue)
            assert_none_was_begun_twice(queue)
        seen = cut.counters()
        assert (seen["crashes"], seen["expired"]) == (0, 0)


def test_an_operator_cut_off_from_the_server_holds_and_claims_go_on(
    queue: QueueOnCluster, release: Release, own: OwnCluster
) -> None:
    scaling = by_length(10, minReplicas=1, maxReplicas=3)
    queue.apply(program=ledger.GATED, seconds=0.5, scaling=scaling)
    queue.enqueue(8, "before")
    victim = queue.wait_for_a_holder()
    queue.wait("the number is decided", lambda: queue.condition("ScalingActive") == "True Auto")
    operator, generation = operator_of(release), queue.generation()
    rule = ("FORWARD", "-p", "tcp", "-s", operator.address, "--dport", "6379", "-j", "DROP")
    own.run_on_node(operator.node, "iptables", "--wait", "--insert", *rule)
    try:
        since = time.monotonic()
        queue.wait("it is reported", lambda: queue.condition("RedisReachable") == "False Unreachable")
        measured("cut off to RedisReachable=False", since)
        queue.enqueue(10, "added")
        queue.enqueue(30, "afterwards")  # with a look at them there would be three workers
        queue.kill_container(victim)
        queue.open("before", "added")
        queue.wait("claims go on", lambda: queue.counters()["done"] >= 10)
        assert (queue.replicas(), queue.generation()) == (1, generation)
        assert queue.condition("ScalingActive") == "False Unknown"
    finally:
        own.run_on_node(operator.node, "iptables", "--wait", "--delete", *rule)
    since = time.monotonic()
    queue.wait("it decides again", lambda: queue.replicas() == 3)
    measured("heal to the number of workers right", since)
    queue.open("afterwards")
    queue.wait_until_done()
    queue.wait("the status is right", queue.status_is_right)
    assert_each_was_done_once(queue)
    assert queue.counters()["crashes"] == 1


# The API server.


def test_work_goes_on_through_a_restart_of_the_api_server(
    queue: QueueOnCluster, release: Release, own: OwnCluster
) -> None:
    goes_on_through(queue, release, own.restart_apiserver)


def test_work_goes_on_while_the_api_server_is_away(
    queue: QueueOnCluster, release: Release, own: OwnCluster
) -> None:
    def away() -> None:
        done = queue.counters()["done"]
        own.kill_apiserver()
        try:
            since = time.monotonic()
            queue.enqueue(10, "added")
            # The outage is to last this long: nothing is waited for.
            while time.monotonic() - since < 20:
                queue.enqueue(2, "added")
                time.sleep(0.5)
            queue.wait("work goes on", lambda: queue.counters()["done"] >= done + 10)
        finally:
            own.start_apiserver()

    goes_on_through(queue, release, away)


def goes_on_through(queue: QueueOnCluster, release: Release, outage: Callable[[], None]) -> None:
    scaling = by_length(40, minReplicas=1, maxReplicas=3)
    queue.apply(program=ledger.GATED, seconds=0.3, scaling=scaling)
    queue.open("before", "added")
    queue.enqueue(30, "before")
    queue.wait_for_a_holder()
    restarts = {name: count for name, (count, _) in queue.lives().items()}
    operators = operator_restarts(release)
    outage()
    since = time.monotonic()
    queue.enqueue(120, "afterwards")
    queue.wait("there are more workers", lambda: queue.replicas() == 3)
    measured("API server back to the number of workers right", since)
    queue.open("afterwards")
    queue.wait_until_done()
    queue.wait("the status is right", queue.status_is_right)
    assert_each_was_done_once(queue)
    assert_none_was_begun_twice(queue)
    now = {name: count for name, (count, _) in queue.lives().items()}
    # A worker that has gone since then was idle: by now the queue may have been scaled down.
    assert {name: now.get(name, count) for name, count in restarts.items()} == restarts
    assert operator_restarts(release) == operators
