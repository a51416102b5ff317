"""One ReliableQueue on a real cluster, as a test sees it: its object, its pods, its items, and who holds them."""

import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, cast

import redis

import claimq.blocking
from claimq.blocking import BlockingQueue
from claimq.errors import StoreUnavailable
from claimq.model import Item, Located, State
from claimq_kubernetes.port import Json
from clusterkit import Cluster, HarnessError
from clusterkit.commands import PATIENCE, eventually
from testkit.on_cluster import ledger
from testkit.on_cluster.containers import running
from testkit.on_cluster.ledger import Ledger
from testkit.on_cluster.pod_status import containers, is_ready, messages, statuses
from testkit.on_cluster.release import Release, listed, the_row
from testkit.on_cluster.servers_on_cluster import Address, on_release

APP, SIDECAR = "worker", "claimq-sidecar"
_OUT_OF_REACH = (StoreUnavailable, redis.ConnectionError, redis.TimeoutError)


@dataclass(frozen=True)
class QueueOnCluster:
    """`items` reaches the queue on its server through a forwarded port; `notes`: where its workers write the ledger."""

    release: Release
    namespace: str
    name: str
    items: BlockingQueue
    server: Address
    notes: Address
    known: list[str] = field(default_factory=list[str])

    @property
    def cluster(self) -> Cluster:
        return self.release.cluster

    @property
    def url(self) -> str:
        """The queue's server, for a program outside of the cluster."""
        return self.server.outside

    @property
    def on_server(self) -> str:
        """The queue's name on the server."""
        return f"{self.namespace}.{self.name}"

    @property
    def _path(self) -> str:
        return f"/apis/claimq.dev/v1alpha1/namespaces/{self.namespace}/reliablequeues/{self.name}"

    def apply(
        self,
        *,
        program: str = ledger.WORKER,
        seconds: float = 0.05,
        version: str = "",
        chunk: int = 1,
        **spec: Any,
    ) -> None:
        """Applies the manifest. `program` is Python that runs in the sidecar's image and claims `chunk` items at once,
        `version` what it calls itself in the ledger; `worker` and others of `spec` are joined to what is said here."""
        env = {
            "LEDGER": ledger.key(self.on_server),
            "LEDGER_URL": self.notes.inside,
            "WORK_SECONDS": str(seconds),
            "VERSION": version,
            "CHUNK": str(chunk),
        }
        worker: Json = {
            "image": self.release.images.sidecar,
            "command": ["python", "-c"],
            "args": [program],
            "drainTimeout": "20s",
            "concurrency": chunk,
        }
        worker |= cast("Json", spec.pop("worker", {}))
        given: list[Json] = worker.get("env", [])
        named = {one["name"] for one in given}
        ours = [{"name": name, "value": value} for name, value in env.items() if name not in named]
        worker["env"] = ours + given
        self.cluster.apply(
            {
                "apiVersion": "claimq.dev/v1alpha1",
                "kind": "ReliableQueue",
                "metadata": {"name": self.name, "namespace": self.namespace},
                "spec": {"redis": {"url": self.server.inside}, "worker": worker, **spec},
            }
        )

    def delete(self) -> None:
        """Asks for its end and does not wait for it."""
        self.cluster.api("DELETE", self._path)

    def is_gone(self) -> bool:
        """Whether the object is gone."""
        found = listed(self.cluster, self._path.rpartition("/")[0])
        return self.name not in [one["metadata"]["name"] for one in found]

    def patch(self, spec: Mapping[str, Any]) -> None:
        """A merge patch of the spec."""
        self.cluster.api("PATCH", self._path, {"spec": spec})

    def enqueue(self, count: int, prefix: str = "item") -> list[str]:
        """Enqueues so many; their ids, which `known` keeps too."""
        made = self.items.enqueue_many(f"{prefix}-{number}" for number in range(count)).ids
        self.known.extend(made)
        return list(made)

    # What the cluster says.

    def get(self) -> Json:
        """The object."""
        return cast("Json", self.cluster.api("GET", self._path))

    def condition(self, kind: str) -> str:
        """`True Working`: status and reason of a condition; empty if it is not there."""
        one = self._condition(kind)
        return f"{one['status']} {one['reason']}" if one else ""

    def message(self, kind: str) -> str:
        """The message of a condition; empty if it is not there."""
        return str(self._condition(kind).get("message", ""))

    def _condition(self, kind: str) -> Json:
        reported: list[Json] = self.get().get("status", {}).get("conditions", [])
        return next((one for one in reported if one["type"] == kind), dict[str, Any]())

    def row(self) -> dict[str, str]:
        """The row of `kubectl get rq`, column to text."""
        words = ("get", "rq", self.name, f"--namespace={self.namespace}")
        return the_row(self.cluster.kubectl(*words))

    def deployment(self) -> Json | None:
        """The worker Deployment; None while there is none."""
        path = f"/apis/apps/v1/namespaces/{self.namespace}/deployments"
        for one in cast("Json", self.cluster.api("GET", path))["items"]:
            if one["metadata"]["name"] == f"{self.name}-worker":
                return cast("Json", one)
        return None

    def replicas(self) -> int | None:
        """What the worker Deployment asks for; None while there is none."""
        found = self.deployment()
        return None if found is None else int(found["spec"]["replicas"])

    def generation(self) -> int:
        """How often the spec of the worker Deployment has been changed, its making counted."""
        found = self.deployment()
        return 0 if found is None else int(found["metadata"]["generation"])

    def pods(self) -> dict[str, Json]:
        """Worker pods by name, those that are ending too."""
        path = f"/api/v1/namespaces/{self.namespace}/pods?labelSelector=claimq.dev/queue%3D{self.name}"
        found = cast("Json", self.cluster.api("GET", path))["items"]
        return {one["metadata"]["name"]: one for one in found}

    def revisions(self) -> dict[str, set[str]]:
        """Template (its hash) to the worker pods that were made from it and are not asked to end."""
        found: dict[str, set[str]] = {}
        for name, pod in self.pods().items():
            if "deletionTimestamp" not in pod["metadata"]:
                found.setdefault(pod["metadata"]["labels"]["pod-template-hash"], set()).add(name)
        return found

    def lives(self) -> dict[str, tuple[int, str]]:
        """Worker pods: how often their containers have been restarted, and since when they are ready."""
        return {
            name: (
                sum(one["restartCount"] for one in statuses(pod["status"])),
                next(
                    (
                        one["lastTransitionTime"]
                        for one in pod["status"].get("conditions", [])
                        if is_ready(one)
                    ),
                    "",
                ),
            )
            for name, pod in self.pods().items()
        }

    def status_is_right(self) -> bool:
        """Whether the object's status says what the server and the cluster say, and that all is well."""
        said = self.get()
        status, seen = said.get("status", {}), self.counters()
        ready = sum(since != "" for _, since in self.lives().values())
        return (
            status.get("observedGeneration") == said["metadata"]["generation"]
            and status.get("items") == {state.value: seen[f"in {state.value}"] for state in State}
            and (status["workers"]["desired"], status["workers"]["ready"]) == (self.replicas(), ready)
            and self.condition("Ready") == "True Working"
            and self.condition("RedisReachable").startswith("True ")
            and self.condition("ScalingActive") == "True Auto"
        )

    def events(self) -> dict[str, str]:
        """Reason to the last message of the queue's events."""
        path = f"/api/v1/namespaces/{self.namespace}/events?fieldSelector=involvedObject.name%3D{self.name}"
        found: list[Json] = cast("Json", self.cluster.api("GET", path))["items"]
        # They are listed by name, which says nothing of when they were written.
        return {one["reason"]: one["message"] for one in sorted(found, key=lambda one: one["lastTimestamp"])}

    # What the server says.

    def counters(self) -> dict[str, int]:
        """What has happened to the items (`done`, `crashes`, ...), and `in main` and so on."""
        seen = self.items.snapshot()
        return {**seen.counters, **{f"in {state.value}": count for state, count in seen.lengths.items()}}

    def holders(self) -> dict[str, int]:
        """Pod to the number of items that it has in progress now; pods without are left out."""
        found: dict[str, int] = {}
        for info in self.items.workers():
            if info.busy:
                pod = info.worker.partition(".")[0]
                found[pod] = found.get(pod, 0) + info.busy
        return found

    def keys(self) -> set[str]:
        """The keys of the queue on the server, those that end by themselves left out."""
        with redis.Redis.from_url(self.url, decode_responses=True) as server:
            found = cast("Iterator[str]", server.scan_iter(f"cq:{{{self.on_server}}}:*", count=1000))
            return {key for key in found if server.ttl(key) == -1}

    def open(self, *texts: str) -> None:
        """Lets workers that run `ledger.GATED` end the items with these texts or prefixes, now and later."""
        with ledger.reached(self.notes.outside) as server:
            server.sadd(ledger.gate(self.on_server), *texts)

    def in_flight(self, pod: str) -> dict[str, Located]:
        """Item to the claim of it that the pod holds."""
        busy = self.items.items(State.BUSY, 1000)
        return {one.item.id: one for one in busy if (one.worker or "").startswith(f"{pod}.")}

    def item(self, number: str) -> Item | None:
        """The item, wherever it is; None once it is done."""
        found = self.items.find(number)
        return None if found is None else found.item

    def ledger(self) -> Ledger:
        return ledger.read(self.notes.outside, self.on_server)

    def prove_whole(self, repeated: Collection[str] = (), *, failed: Collection[str] = ()) -> None:
        """Each known item was done once, by the counters and by the workers' ledger, or is in `failed`; and no other
        than the `repeated` was begun more than once. No lease ran out for it."""
        seen = self.counters()
        wanted = [number for number in self.known if number not in failed]
        assert (seen["done"], seen["in failed"], seen["expired"]) == (len(wanted), len(failed), 0)
        written = self.ledger()
        assert written.times("done") == dict.fromkeys(wanted, 1)
        assert {number for number, times in written.times("began").items() if times > 1} <= set(repeated)

    # Waiting and breaking.

    def wait(
        self, what: str, probe: Callable[[], object], *, timeout: float = PATIENCE, every: float = 0.2
    ) -> None:
        """Until `probe()` is true; a server or an API server that does not answer just now counts as not yet."""
        trouble: list[str] = []

        def asked() -> bool:
            try:
                trouble.clear()
                return bool(probe())
            except (*_OUT_OF_REACH, HarnessError) as error:
                trouble.append(f"{error}\n")
                return False

        eventually(
            what, asked, timeout=timeout, every=every, why_not=lambda: "".join(trouble) + self._describe()
        )

    def wait_until_done(self, count: int | None = None) -> None:
        """Until so many items (default: all that were enqueued here) are done and none is left but in failed."""
        wanted = len(self.known) if count is None else count

        def is_done() -> bool:
            seen = self.counters()
            return seen["done"] >= wanted and not any(
                seen[f"in {state.value}"] for state in State if state is not State.FAILED
            )

        self.wait(f"{wanted} items are done", is_done)
        self._let_the_last_be_written()

    def _let_the_last_be_written(self) -> None:
        """A worker writes what its verdict did a moment after the server has counted it; one that was killed never."""

        def is_written() -> bool:
            entries = self.ledger()
            return not entries.entries or len(entries.of("done")) >= self.counters()["done"]

        with suppress(HarnessError):
            self.wait("the ledger is complete", is_written, timeout=120)

    def wait_for_a_holder(self, at_least: int = 1) -> str:
        """A pod that has items in progress."""
        found: list[str] = []

        def is_there() -> bool:
            found.extend(pod for pod, count in self.holders().items() if count >= at_least)
            return bool(found)

        self.wait("a worker has items in progress", is_there, every=0.05)
        return found[0]

    def wait_until_given_back(self, claims: Iterable[Located]) -> None:
        """Until none of these claims is held any more: their items can be claimed again, or have been."""
        tokens = {one.name for one in claims}
        self.wait(
            "the claims of the dead are given back",
            lambda: not tokens & {one.name for one in self.items.items(State.BUSY, 1000)},
            every=0.02,
        )

    @contextmanager
    def timed_return(self, claims: Collection[Located], what: str, lease: str) -> Generator[None]:
        """Around a kill: waits until the claims are given back, and prints how long that took beside the lease."""
        began = time.monotonic()
        yield
        killed = time.monotonic()
        self.wait_until_given_back(claims)
        took = time.monotonic()
        print(
            f"\n{what}: {len(claims)} claims back {took - killed:.2f} s after the kill was done, "
            f"{took - began:.2f} s after it was asked for; a plain lease would have taken up to {lease}"
        )

    def kill_container(self, pod: str, container: str = APP) -> None:
        """SIGKILL to all processes of a container of the pod, from outside, as the kernel would."""
        running(self.cluster, self.namespace, pod, container).kill()

    def force_delete(self, pod: str) -> None:
        """The pod without a grace period, as a user does who is in a hurry."""
        self.cluster.kubectl(
            "delete", "pod", pod, f"--namespace={self.namespace}", "--grace-period=0", "--force"
        )

    def claims_no_more(self, pod: str) -> bool:
        """Whether the pod's sidecar drains; also once it is gone."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}:9464/proxy/metrics"
        try:
            return "claimq_sidecar_draining 1.0" in str(self.cluster.api("GET", path)).splitlines()
        except HarnessError:
            return pod not in self.pods()

    def evict(self, pod: str) -> None:
        """Asks for the pod's eviction until it is granted, as draining its node does: what the budget allows is known
        only a moment after the pod is ready."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}"
        head = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
        self.wait("the eviction is granted", lambda: self.cluster.api("POST", f"{path}/eviction", head))

    def wait_until_gone(self, pod: str) -> None:
        """Until the API server knows the pod no more."""
        self.wait(f"the pod {pod} is gone", lambda: pod not in self.pods(), every=0.1)

    def _describe(self) -> str:
        seen: list[str] = []
        looks = (
            self.counters,
            self.items.workers,
            lambda: containers(self.pods()),
            self.replicas,
            lambda: messages(self.get()),
        )
        for look in looks:
            try:
                seen.append(str(look()))
            except (*_OUT_OF_REACH, HarnessError) as error:
                seen.append(str(error))
        return "{}\nworkers {}\ncontainers {}\nreplicas {}\nconditions {}".format(*seen)


@contextmanager
def queue_on(
    release: Release,
    namespace: str,
    name: str = "work",
    *,
    server: Address | None = None,
    notes: Address | None = None,
) -> Generator[QueueOnCluster]:
    """A queue that is not applied yet, on the release's Valkey or another server. `notes`: where its workers
    write their ledger, if not on that server too."""
    with ExitStack() as stack:
        at = server or stack.enter_context(on_release(release))
        connected = stack.enter_context(claimq.blocking.connect(at.outside))
        items = connected.queue(f"{namespace}.{name}")
        yield QueueOnCluster(release, namespace, name, items, at, notes or at)
