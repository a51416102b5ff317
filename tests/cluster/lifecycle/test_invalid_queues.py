"""Mistakes that no API server can refuse: a condition names the field and what to do, and doing it heals the queue."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
import redis

import claimq.blocking
from claimq_kubernetes.port import Json
from clusterkit import Cluster
from clusterkit.commands import WAIT
from testkit.kubernetes import bad_manifests
from testkit.kubernetes.invalid_queues import MISTAKES, READER, TEAM, WORKERS, Mistake, secret_of
from testkit.on_cluster.queue_on_cluster import QueueOnCluster
from testkit.on_cluster.release import Release, namespace
from testkit.on_cluster.servers_on_cluster import on_release

pytestmark = pytest.mark.cluster
WHERE, SCARCE = "mistakes", "mistakes-scarce"


@dataclass(frozen=True)
class Mistaken:
    """A queue for each mistake; `healed` are those that have none any more."""

    queues: dict[str, QueueOnCluster]
    healed: set[str] = field(default_factory=set[str])

    def heal(self, name: str) -> None:
        """Does what the message says, once."""
        if name not in self.healed:
            MISTAKES[name].heal(self.queues[name])
            self.healed.add(name)


@pytest.fixture(scope="module")
def mistaken(release: Release) -> Iterator[Mistaken]:
    """A queue for each mistake, all applied at once."""
    cluster = release.cluster
    with (
        namespace(cluster, WHERE),
        namespace(cluster, SCARCE),
        on_release(release) as at,
        claimq.blocking.connect(at.outside) as server,
        redis.Redis.from_url(at.outside) as direct,
    ):
        queues: dict[str, QueueOnCluster] = {}
        for name in MISTAKES:
            where = SCARCE if name == "over-quota" else WHERE
            queues[name] = QueueOnCluster(release, where, name, server.queue(f"{where}.{name}"), at, at)
        try:
            _prepare(cluster, direct, queues)
            for name, mistake in MISTAKES.items():
                _apply(queues[name], mistake)
            yield Mistaken(queues)
        finally:
            try:
                for where in (WHERE, SCARCE):
                    cluster.kubectl("delete", "rq", "--all", f"--namespace={where}", WAIT)
            finally:
                direct.execute_command("ACL", "DELUSER", TEAM, READER)


def _prepare(cluster: Cluster, direct: "redis.Redis", queues: dict[str, QueueOnCluster]) -> None:
    direct.execute_command("ACL", "SETUSER", TEAM, "reset", "on", ">right", "~*", "+@all")
    direct.execute_command("ACL", "SETUSER", READER, "reset", "on", ">right", "+@all")
    direct.set(f"cq:{{{queues['key-of-another-type'].on_server}}}:leases", "in the way")
    host = queues["wrong-password"].release.redis_url.removeprefix("redis://").removesuffix("/0")
    quota = {"hard": {"requests.memory": "1Gi"}}
    cluster.apply(
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "memory"}, "spec": quota},
        namespace=SCARCE,
    )
    cluster.apply(
        secret_of("has-another-key", address=f"redis://{host}/0"),
        secret_of("address-unreadable", url="valkey/0"),
        secret_of("tls-where-there-is-none", url=f"rediss://{host}/0"),
        secret_of("wrong-password", url=f"redis://{TEAM}:wrong@{host}/0"),
        secret_of("no-rights-on-the-server", url=f"redis://{READER}:right@{host}/0"),
        namespace=WHERE,
    )


def _apply(queue: QueueOnCluster, mistake: Mistake) -> None:
    """A good queue with a worker that rests, with the mistake laid over it."""
    good: Json = {
        "redis": {"url": queue.release.redis_url},
        "worker": {
            "image": queue.release.images.sidecar,
            "command": ["python", "-c"],
            "args": ["import time; time.sleep(3600)"],
            "drainTimeout": "1s",
        },
        "scaling": {"minReplicas": 1, "maxReplicas": 1},
    }
    spec = _over(mistake.spec, good)
    metadata = {"name": queue.name, "namespace": queue.namespace}
    queue.cluster.apply(
        {
            "apiVersion": "claimq.dev/v1alpha1",
            "kind": "ReliableQueue",
            "metadata": metadata,
            "spec": spec,
        }
    )


def _over(changes: Json, good: Json) -> Json:
    """As a merge patch does it."""
    merged = dict(good)
    for key, value in changes.items():
        if isinstance(value, dict):
            under: Any = merged.get(key, {})
            merged[key] = _over(cast("Json", value), under)
        elif value is None:
            merged.pop(key, None)
        else:
            merged[key] = value
    return merged


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_answered_by_a_condition_with_its_field_and_what_to_do(
    mistaken: Mistaken, name: str
) -> None:
    queue, mistake = mistaken.queues[name], MISTAKES[name]
    reported: list[str] = []

    def is_reported() -> bool:
        reported[:] = [queue.condition(mistake.condition), queue.message(mistake.condition)]
        return reported[0] in mistake.verdicts and all(words in reported[1] for words in mistake.says)

    try:
        queue.wait(f"{mistake.condition} says {mistake.says}", is_reported)
    finally:
        print(f"{name}: {' '.join(reported)}")
    # At once: the longer it waits, the less often the cluster tries again.
    mistaken.heal(name)


@pytest.mark.parametrize("name", MISTAKES)
def test_what_the_message_names_mends_it(mistaken: Mistaken, name: str) -> None:
    queue = mistaken.queues[name]
    mistaken.heal(name)

    def is_mended() -> bool:
        verdicts = [queue.condition(kind) for kind in ("Ready", WORKERS, "Stalled")]
        is_well = verdicts == ["True Working", "True AllReady", "False NotStalled"]
        # Some mistakes leave the workers ready: that they are is no sign that the change has been acted on.
        return is_well and "not injected" not in queue.message(WORKERS)

    queue.wait("it works with a worker, and nothing is in the way", is_mended)


def test_the_mistakes_that_are_shown_to_be_answered_are_many_more_than_forty() -> None:
    refused = len(bad_manifests.MISTAKES)
    print(f"{refused} refused by the API server (tests/cluster/crd), {len(MISTAKES)} answered by a condition")
    assert refused + len(MISTAKES) >= 40


def test_a_new_password_is_taken_over_without_a_restart(queue: QueueOnCluster) -> None:
    host = queue.release.redis_url.removeprefix("redis://").removesuffix("/0")
    user = "rotated"
    with redis.Redis.from_url(queue.url) as server:
        server.execute_command("ACL", "SETUSER", user, "reset", "on", ">first", "~*", "+@all")
        try:
            queue.cluster.apply(
                secret_of("redis", url=f"redis://{user}:first@{host}/0"), namespace=queue.namespace
            )
            secret = {"secretRef": {"name": "redis"}}
            queue.apply(redis=secret, scaling={"minReplicas": 1, "maxReplicas": 1})
            queue.enqueue(3)
            queue.wait_until_done()
            before = _runs(queue)
            queue.cluster.apply(
                secret_of("redis", url=f"redis://{user}:second@{host}/0"), namespace=queue.namespace
            )
            server.execute_command("ACL", "SETUSER", user, "<first", ">second")
            server.execute_command("CLIENT", "KILL", "USER", user)
            queue.enqueue(3, "later")
            # The kubelet brings new contents of Secrets about once a minute, and at once when the pod changes.
            for pod in queue.pods():
                note = {"metadata": {"annotations": {"test/looked-at": "again"}}}
                words = ("patch", "pod", pod, f"--namespace={queue.namespace}", "--patch", json.dumps(note))
                queue.cluster.kubectl(*words)
            queue.wait_until_done()
            queue.wait("all is well", lambda: queue.condition("Ready") == "True Working")
            assert _runs(queue) == before
            assert queue.counters()["crashes"] == 0
        finally:
            server.execute_command("ACL", "DELUSER", user)


def _runs(queue: QueueOnCluster) -> dict[str, list[int]]:
    """Pod to how often its containers were restarted."""
    kinds = ("initContainerStatuses", "containerStatuses")
    return {
        name: [one["restartCount"] for kind in kinds for one in pod["status"][kind]]
        for name, pod in queue.pods().items()
    }
