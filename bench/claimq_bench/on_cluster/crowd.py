"""What the operator costs with 1, 100 and 1,000 queues that rest: memory, processor time, requests, how late it is."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, cast

import claimq.blocking
from claimq_bench.meter import Spread, must
from claimq_bench.on_cluster.deployment_watch import Watch
from claimq_bench.on_cluster.operator_process import Look, OperatorProcess
from claimq_bench.on_cluster.place import QUEUES, QUEUES_PATH
from clusterkit import ApiError, HarnessError
from clusterkit.commands import eventually
from testkit.on_cluster.release import Release
from testkit.programs.metrics_page import Histogram

_AT_ONCE = 8
_STEP = 5.0
_QUIET = 15.0
_LONGEST = 180.0
_CONFLICT = 409


@dataclass(frozen=True)
class Rest:
    """A window in which nothing happens to so many queues."""

    queues: int
    settled: float
    looks: tuple[Look, ...]
    audited: int | None

    @property
    def seconds(self) -> float:
        return self.looks[-1].at - self.looks[0].at

    @property
    def rss(self) -> Spread:
        """MB."""
        return Spread.of([look.rss for look in self.looks])

    @property
    def cpu(self) -> float:
        """Share of one core."""
        return (self.looks[-1].cpu - self.looks[0].cpu) / self.seconds

    @property
    def requests(self) -> float:
        """To the API server in a minute, as the operator counts them."""
        return self._rate("claimq_kubernetes_requests_total")

    @property
    def requests_audited(self) -> float | None:
        """In a minute, as the API server's log says: its watches as well."""
        return None if self.audited is None else self.audited / self.seconds * 60

    @property
    def passes(self) -> float:
        """A second."""
        return self._rate("claimq_passes_total") / 60

    def histogram(self, name: str) -> Histogram:
        """What came into it within the window."""
        return self.looks[-1].page.histogram(name).since(self.looks[0].page.histogram(name))

    def _rate(self, name: str) -> float:
        return (self.looks[-1].page.total(name) - self.looks[0].page.total(name)) / self.seconds * 60


def rest(release: Release, operator: OperatorProcess, queues: int, seconds: float, *, since: int = 0) -> Rest:
    """Makes queues up to that number, waits until all are served and nothing is written any more, and looks on."""
    began = time.monotonic()
    _create(release, range(since, queues))
    _wait_until_served(release, queues)
    settled = time.monotonic() - began
    _quiet(operator)
    looks = tuple(_looks(operator, seconds))
    must(looks[-1].page.total("claimq_queues") == queues, f"the operator doesn't look after {queues} queues")
    reachable = looks[-1].page.total("claimq_queue_redis_reachable")
    must(reachable == queues, f"only of {reachable:.0f} of {queues} queues the server is in reach")
    return Rest(queues, settled, looks, operator.audited(looks[0], looks[-1]))


def wake(release: Release, samples: int) -> list[float]:
    """From an enqueue to workers asked for, one queue after the other, with all the others at rest beside it."""
    took: list[float] = []
    with (
        Watch(release.cluster) as watch,
        release.server_url() as url,
        claimq.blocking.connect(url) as server,
    ):
        for name in map(_name, range(samples)):
            server.queue(f"{QUEUES}.{name}").enqueue("a")
            enqueued = time.monotonic()
            took.append(max(watch.when(name, is_awake=True) - enqueued, 0.0))
    return took


def _wait_until_served(release: Release, queues: int) -> None:
    """As long as it takes, if only it goes on: a busy machine is slow, and that is one of the figures."""
    served, last = -1, time.monotonic()
    while served < queues:
        now = _served(release)
        if now > served:
            served, last = now, time.monotonic()
        elif time.monotonic() - last > _LONGEST:
            raise HarnessError(f"{served} of {queues} queues are served, and no more for {_LONGEST:.0f} s")
        if served < queues:
            # The listing is long: asked for more often, it would slow down what it waits for.
            time.sleep(1.0 + queues / 250)


def _looks(operator: OperatorProcess, seconds: float) -> Iterator[Look]:
    began = operator.look()
    yield began
    while True:
        time.sleep(_STEP)
        last = operator.look()
        yield last
        if last.at - began.at >= seconds:
            return


def _quiet(operator: OperatorProcess) -> None:
    """Until the operator has written nothing for 15 s: what follows is rest."""
    written, since = -1.0, time.monotonic()

    def is_quiet() -> bool:
        nonlocal written, since
        page = operator.look().page
        now = sum(page.total("claimq_kubernetes_requests_total", verb=verb) for verb in ("apply", "create"))
        if now != written:
            written, since = now, time.monotonic()
        return time.monotonic() - since >= _QUIET

    eventually("the operator writes nothing any more", is_quiet, timeout=_LONGEST, every=1)


def _name(number: int) -> str:
    return f"rest-{number:04}"


def _create(release: Release, numbers: range) -> None:
    def one(number: int) -> None:
        try:
            release.cluster.api("POST", QUEUES_PATH, _manifest(release, _name(number)), timeout=60)
        except ApiError as error:
            if error.status != _CONFLICT:
                raise

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(one, numbers))


def _manifest(release: Release, name: str) -> dict[str, Any]:
    """Its workers fit on no node: what is measured is the operator, not pods."""
    worker = {
        "image": release.images.checksums,
        "template": {"spec": {"nodeSelector": {"claimq.dev/bench": "nowhere"}}},
    }
    return {
        "apiVersion": "claimq.dev/v1alpha1",
        "kind": "ReliableQueue",
        "metadata": {"name": name, "namespace": QUEUES},
        "spec": {
            "redis": {"url": release.redis_url},
            "worker": worker,
            "scaling": {"minReplicas": 0, "maxReplicas": 1},
        },
    }


def _served(release: Release) -> int:
    """Number of queues whose condition Ready is true."""
    listed = cast("dict[str, Any]", release.cluster.api("GET", QUEUES_PATH, timeout=60))
    return sum(
        any(one["type"] == "Ready" and one["status"] == "True" for one in found["status"]["conditions"])
        for found in listed["items"]
        if "conditions" in found.get("status", {})
    )
