"""The main job on a real Kubernetes (`make cluster-demo`): checksums of two thousand files, by pods that come and go.

Uses the cluster that is up (make cluster-up, or KUBE_CONTEXT), or brings one up and takes it down again. Installs the
chart with a Valkey, applies the checksum example, enqueues the path of each file of the workers' own image, kills a pod
that has items in hand, and compares every result with `sha256sum`. Exit code 0 only if nothing is lost, made up or
wrong.
"""

import signal
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import claimq.blocking
from claimq.blocking import BlockingQueue
from claimq.model import State
from clusterkit import Cluster, HarnessError, session
from clusterkit.layout import Layout
from clusterkit.own_cluster import OwnCluster
from clusterkit.sessions import existing
from testkit.cluster_images import load_images
from testkit.release import Release, namespace, provide_volume, refuse_if_installed

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))  # also where PYTHONSAFEPATH keeps a script's own folder out

from accounting import Account, FailedFile, Result, account  # noqa: E402 - see above
from on_cluster import UNREADABLE, ChecksumsOnCluster, failed  # noqa: E402 - see above

FILES = 2000
PATIENCE = 600.0
SHOW_SECONDS = 2.0
WHERE = "checksums"


class DemoFailed(Exception):
    """The demo could not go on; the message says why."""


@dataclass
class Story:
    """What happened, for the summary. Instants in seconds since the items were enqueued."""

    paths: dict[str, bytes] = field(default_factory=dict[str, bytes])
    most_workers: int = 0
    killed: str = ""
    moments: dict[str, float] = field(default_factory=dict[str, float])


def say(text: str) -> None:
    print(text, flush=True)


def _end(number: int, _: object) -> None:
    """Ends by an exception, so that what was installed is taken away."""
    sys.exit(128 + number)


def main() -> int:
    """Runs it; the exit code."""
    signal.signal(signal.SIGTERM, _end)
    try:
        with _cluster() as cluster:
            found = _demo(cluster)
    except (DemoFailed, HarnessError) as error:
        say(f"FAILED: {error}")
        return 1
    for mistake in found.mistakes[:20]:
        say(f"  {mistake}")
    say("FAILED" if found.mistakes else "All accounted for: nothing lost, nothing made up, nothing wrong.")
    return 1 if found.mistakes else 0


@contextmanager
def _cluster() -> Generator[Cluster]:
    """The one that is up, which stays; or a new one, which goes."""
    try:
        up = existing() or OwnCluster(Layout("claimq"))
    except HarnessError:
        say("bringing up a cluster of one node (make cluster-up keeps one for the next time)")
        with session(1, name="claimq") as made:
            yield made
        return
    yield up


def _demo(cluster: Cluster) -> Account:
    refuse_if_installed(cluster)
    say("building the images of operator, sidecar and worker, and putting them on the nodes")
    images = load_images(cluster, "demo")
    with namespace(cluster, "claimq-demo") as system, namespace(cluster, WHERE):
        release = Release(cluster, images, "claimq", system)
        provide_volume(cluster, system, f"data-{release.valkey}-0", "claimq-demo-valkey")
        example = ChecksumsOnCluster(release, WHERE, "claimq-demo-results")
        try:
            say("$ helm install claimq charts/claimq --set valkey.enabled=true")
            release.install("--set=valkey.enabled=true")
            return _job(example)
        finally:
            example.clear()
            release.uninstall()
            cluster.kubectl("delete", "pv", "claimq-demo-valkey", "--ignore-not-found", "--wait=false")


def _job(example: ChecksumsOnCluster) -> Account:
    release, story = example.release, Story()
    example.prepare()
    paths = example.paths(FILES)
    say(f"$ kubectl create secret generic redis --from-literal=url={release.redis_url}")
    say("$ kubectl apply -f examples/checksums/queue.yaml")
    manifest = example.manifest()
    release.cluster.apply(manifest, namespace=WHERE)
    with release.server_url() as url, claimq.blocking.connect(url) as server:
        queue = server.queue(example.on_server)
        began = time.monotonic()
        for at in range(0, len(paths), 500):
            part = [path.encode() for path in paths[at : at + 500]]
            story.paths.update(zip(queue.enqueue_many(part).ids, part, strict=True))
        say(
            f"enqueued the paths of {len(story.paths):,} files, {len(UNREADABLE)} of them unreadable on purpose"
        )
        _watch(release, queue, story, began)
        given_up = {item_id: FailedFile(*told) for item_id, told in failed(queue).items()}
        counters = queue.snapshot().counters
    _tell_failed(given_up)
    results = [Result(*one) for one in example.results()]
    sums = example.sums(list(story.paths.values()))
    found = account(story.paths, results, given_up, sums, manifest["spec"]["requeueLimit"])
    _tell(story, found, counters)
    return found


def _watch(release: Release, queue: BlockingQueue, story: Story, began: float) -> None:
    """Shows each change, kills a pod with items in hand, and waits until all is done and all workers are gone."""
    shown, next_look = "", 0.0
    while time.monotonic() - began < PATIENCE:
        now = time.monotonic() - began
        seen = queue.snapshot()
        lengths = {state: seen.lengths[state] for state in State}
        pods = _workers(release.cluster)
        story.most_workers = max(story.most_workers, len(pods))
        if seen.counters["done"]:
            story.moments.setdefault("first item done", now)
        if not story.killed and seen.counters["done"] > FILES // 10:
            story.killed = _kill(release.cluster, queue)
        left = sum(lengths[state] for state in State if state is not State.FAILED)
        if not left:
            story.moments.setdefault("all done", now)
            if not pods:
                story.moments["no worker left"] = now
                return
        if now >= next_look:
            shown, next_look = _show(release.cluster, now, shown), now + SHOW_SECONDS
        time.sleep(0.5)
    raise DemoFailed(f"not done after {PATIENCE:.0f} s: kubectl describe rq checksums --namespace={WHERE}")


def _show(cluster: Cluster, now: float, shown: str) -> str:
    """The row of `kubectl get rq`, if it is another than the last."""
    head, row = cluster.kubectl("get", "rq", "checksums", f"--namespace={WHERE}").splitlines()
    line = row.rpartition(" ")[0].rstrip()
    if line != shown:
        say(f"          {head}\n{now:6.1f} s  {line}" if not shown else f"{now:6.1f} s  {line}")
    return line


def _workers(cluster: Cluster) -> list[str]:
    path = f"/api/v1/namespaces/{WHERE}/pods?labelSelector=claimq.dev/queue=checksums"
    found = cast("dict[str, Any]", cluster.api("GET", path))
    return [one["metadata"]["name"] for one in found["items"]]


def _kill(cluster: Cluster, queue: BlockingQueue) -> str:
    """A pod whose worker has items in hand, gone without a word; empty if nobody has any just now."""
    for info in queue.workers():
        if info.busy:
            pod = info.worker.partition(".")[0]
            words = ("delete", "pod", pod, f"--namespace={WHERE}", "--grace-period=0", "--force")
            cluster.kubectl(*words)
            say(f"          killed the pod {pod} with {info.busy} items in hand")
            return pod
    return ""


def _tell_failed(failed: dict[str, FailedFile]) -> None:
    for one in list(failed.values())[:10]:
        say(f"failed after {one.requeue_count} requeues: {one.path.decode()}: {one.reason}")


def _tell(story: Story, found: Account, counters: dict[str, int]) -> None:
    say("")
    say(f"right      {found.right:,} checksums, each as sha256sum says")
    say(f"failed     {found.failed:,}, each unreadable, with its reason")
    say(f"repeats    {found.repeats:,} results written again after the kill, folded by item id")
    say(f"killed     {story.killed or 'nobody'}")
    say(f"workers    0 -> {story.most_workers} -> 0")
    say(f"times      {', '.join(f'{name} {at:.1f} s' for name, at in story.moments.items())}")
    if not story.killed:
        found.mistakes.append("no pod was killed: none had items in hand when it was time")
    if counters["done"] != found.right:
        found.mistakes.append(f"{counters.get('done', 0)} items done, but {found.right} right results")


if __name__ == "__main__":
    sys.exit(main())
