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
from urllib.parse import unquote_to_bytes

import yaml

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

FILES = 2000
UNREADABLE = ("/etc/shadow", "/etc", "/nowhere/at/all", "/proc/1/mem", "/dev/null")
PATIENCE = 600.0
SHOW_SECONDS = 2.0
WHERE = "checksums"
SHARED_GROUP = 64646


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
        provide_volume(cluster, WHERE, "results", "claimq-demo-results")
        try:
            say("$ helm install claimq charts/claimq --set valkey.enabled=true")
            release.install("--set=valkey.enabled=true")
            return _job(release)
        finally:
            cluster.kubectl("delete", "rq", "--all", f"--namespace={WHERE}", "--timeout=60s")
            release.uninstall()
            for volume in ("claimq-demo-valkey", "claimq-demo-results"):
                cluster.kubectl("delete", "pv", volume, "--ignore-not-found", "--wait=false")


def _job(release: Release) -> Account:
    cluster, story = release.cluster, Story()
    cluster.apply(_claim(), _looker(release.images.checksums), namespace=WHERE)
    cluster.kubectl("wait", "pod/look", f"--namespace={WHERE}", "--for=condition=Ready", "--timeout=90s")
    paths = [*_look(cluster, f"find /usr /opt /var -xdev -type f 2>/dev/null | head -n {FILES}"), *UNREADABLE]
    paths = [path for path in paths if path.isascii()]
    say("$ kubectl apply -f examples/checksums/queue.yaml")
    cluster.apply(manifest(release), namespace=WHERE)
    with release.server_url() as url, claimq.blocking.connect(url) as server:
        queue = server.queue(f"{WHERE}.checksums")
        began = time.monotonic()
        for at in range(0, len(paths), 500):
            part = [path.encode() for path in paths[at : at + 500]]
            story.paths.update(zip(queue.enqueue_many(part).ids, part, strict=True))
        say(
            f"enqueued the paths of {len(story.paths):,} files, {len(UNREADABLE)} of them unreadable on purpose"
        )
        _watch(release, queue, story, began)
        failed = {
            located.item.id: FailedFile(
                located.item.payload,
                located.item.last_error or "",
                located.item.requeue_count,
            )
            for located in queue.items(State.FAILED, 1000)
        }
        counters = queue.snapshot().counters
    _tell_failed(failed)
    results = _results(cluster)
    sums = _sums(cluster, list(story.paths.values()))
    found = account(story.paths, results, failed, sums, manifest(release)["spec"]["requeueLimit"])
    _tell(story, found, counters)
    return found


def manifest(release: Release) -> dict[str, Any]:
    """The example's, with the images and the server of this cluster, and a place for results that outlives a pod."""
    document: dict[str, Any] = yaml.safe_load((HERE / "queue.yaml").read_text())
    spec = document["spec"]
    spec["redis"] = {"url": release.redis_url}
    spec["worker"] |= {
        "image": release.images.checksums,
        "env": [{"name": "CHECKSUMS_RESULTS", "value": "/results/results.txt"}],
        "template": {
            "spec": {
                "volumes": [{"name": "results", "persistentVolumeClaim": {"claimName": "results"}}],
                "containers": [
                    {"name": "worker", "volumeMounts": [{"name": "results", "mountPath": "/results"}]}
                ],
            }
        },
    }
    return document


def _claim() -> dict[str, Any]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "results"},
        "spec": spec,
    }


def _looker(image: str) -> dict[str, Any]:
    """A pod of the workers' image that does nothing: there `sha256sum` sees the same files."""
    container = {
        "name": "look",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sleep", "3600"],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "results", "mountPath": "/results"}],
    }
    security = {"runAsNonRoot": True, "fsGroup": SHARED_GROUP, "seccompProfile": {"type": "RuntimeDefault"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "look"},
        "spec": {
            "containers": [container],
            "securityContext": security,
            "terminationGracePeriodSeconds": 1,
            "volumes": [{"name": "results", "persistentVolumeClaim": {"claimName": "results"}}],
        },
    }


def _look(cluster: Cluster, script: str, stdin: str | None = None) -> list[str]:
    words = ("exec", "--stdin", f"--namespace={WHERE}", "look", "--", "sh", "-c", script)
    return cluster.kubectl(*words, stdin=stdin, timeout=180).splitlines()


def _watch(release: Release, queue: BlockingQueue, story: Story, began: float) -> None:
    """Shows each change, kills a pod with items in hand, and waits until all is done and all workers are gone."""
    shown, next_look = "", 0.0
    while time.monotonic() - began < PATIENCE:
        now = time.monotonic() - began
        seen = queue.snapshot()
        lengths = {state: seen.lengths[state] for state in State}
        pods = _workers(release.cluster)
        story.most_workers = max(story.most_workers, len(pods))
        if seen.counters.get("done", 0):
            story.moments.setdefault("first item done", now)
        if not story.killed and seen.counters.get("done", 0) > FILES // 10:
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


def _results(cluster: Cluster) -> list[Result]:
    found: list[Result] = []
    for line in _look(cluster, "cat /results/results.txt"):
        checksum, item_id, path = line.split(" ")
        found.append(Result(checksum, item_id, unquote_to_bytes(path)))
    return found


def _sums(cluster: Cluster, paths: list[bytes]) -> dict[bytes, str]:
    """What `sha256sum` says of the same files, without those that it cannot read."""
    names = "\n".join(path.decode() for path in paths if path.decode() not in UNREADABLE) + "\n"
    sums: dict[bytes, str] = {}
    for line in _look(cluster, "xargs -d '\\n' sha256sum -- 2>/dev/null; true", stdin=names):
        checksum, _, path = line.partition("  ")
        sums[path.encode()] = checksum
    return sums


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
    if counters.get("done", 0) != found.right:
        found.mistakes.append(f"{counters.get('done', 0)} items done, but {found.right} right results")


if __name__ == "__main__":
    sys.exit(main())
