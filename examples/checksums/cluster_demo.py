"""Checksums of two thousand files on a real Kubernetes, with workers from 0 to 4 and back (`make cluster-demo`).

Uses the running cluster (make cluster-up; CLAIMQ_CLUSTER or KUBE_CONTEXT names another), or creates one and deletes it
at the end. Installs the chart with a Valkey, applies the checksum example, enqueues the path of each file of the
workers' image, kills a pod that has items in progress, and compares every result with `sha256sum`. The exit code is 0
only if no result is missing, invented or wrong. Everything that it creates is deleted at the end, also after Ctrl-C.
"""

import os
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import claimq.blocking
from claimq.blocking import BlockingQueue
from claimq.errors import ClaimqError
from claimq.model import State
from clusterkit import Cluster, HarnessError, at_hand
from testkit.on_cluster.cluster_images import load_images
from testkit.on_cluster.release import Release, namespace, provide_volume, refuse_if_installed

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))  # PYTHONSAFEPATH leaves out a script's own folder

from accounting import FailedFile, Result, account  # noqa: E402 - see above
from on_cluster import UNREADABLE, ChecksumsOnCluster, failed  # noqa: E402 - see above
from summary import Story, summary  # noqa: E402 - see above

FILES = 2000
PORTION = 10
"""Paths that are enqueued at a time, until a pod with items in progress has been killed."""
PATIENCE = 600.0
SHOW_SECONDS = 2.0
WHERE = "checksums"
INTERRUPTED = 130


class DemoFailed(Exception):
    """The demo could not continue; the message says why."""


def say(text: str) -> None:
    print(text, flush=True)


def _end(number: int, _: object) -> None:
    """Ends by an exception, so that everything that was created is deleted."""
    sys.exit(128 + number)


def main() -> int:
    """Runs the demo; returns the exit code."""
    signal.signal(signal.SIGTERM, _end)
    try:
        with at_hand(say) as (cluster, _):
            lines, code = _demo(cluster)
    except (DemoFailed, HarnessError, ClaimqError) as error:
        say(f"FAILED: {error}")
        return 1
    except KeyboardInterrupt:
        say("interrupted; everything that was created is deleted")
        return INTERRUPTED
    for line in lines:
        say(line)
    return code


def _demo(cluster: Cluster) -> tuple[list[str], int]:
    refuse_if_installed(cluster)
    say("building the images of operator, sidecar and worker, and putting them on the nodes")
    images = load_images(cluster, os.environ.get("CLAIMQ_IMAGE_TAG") or "demo")
    with namespace(cluster, "claimq-demo") as system, namespace(cluster, WHERE):
        release = Release(cluster, images, "claimq", system)
        example = ChecksumsOnCluster(release, WHERE, "claimq-demo-results")
        with ExitStack() as at_the_end:
            volume = "claimq-demo-valkey"
            at_the_end.callback(cluster.kubectl, "delete", "pv", volume, "--ignore-not-found", "--wait=false")
            provide_volume(cluster, system, f"data-{release.valkey}-0", volume)
            at_the_end.callback(release.uninstall)
            say("$ helm install claimq charts/claimq --set valkey.enabled=true")
            release.install("--set=valkey.enabled=true")
            at_the_end.callback(example.clear)
            return _job(example)


def _job(example: ChecksumsOnCluster) -> tuple[list[str], int]:
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
        rest = paths[FILES // 2 :]
        _enqueue(queue, story, paths[: FILES // 2])
        say(f"enqueued the paths of {len(story.paths):,} files")
        _watch(release, queue, story, rest, began)
        given_up = {item_id: FailedFile(*fields) for item_id, fields in failed(queue).items()}
        counters = queue.snapshot().counters
    _print_failed(given_up)
    results = [Result(*one) for one in example.results()]
    sums = example.sums(list(story.paths.values()))
    found = account(story.paths, results, given_up, sums, manifest["spec"]["requeueLimit"])
    say("")
    return summary(story, found, counters["done"])


def _enqueue(queue: BlockingQueue, story: Story, paths: list[str]) -> None:
    for at in range(0, len(paths), 500):
        part = [path.encode() for path in paths[at : at + 500]]
        story.paths.update(zip(queue.enqueue_many(part).ids, part, strict=True))


def _watch(release: Release, queue: BlockingQueue, story: Story, rest: list[str], began: float) -> None:
    """Prints each change, kills a pod with items in progress, and waits until all are done and no worker is left.

    Enqueues the ``rest`` of the paths: in portions until that pod has been found, however fast the workers are.
    """
    shown, next_look = "", 0.0
    while (now := time.monotonic() - began) < PATIENCE:
        seen = queue.snapshot()
        done = seen.counters["done"]
        if done:
            story.moments.setdefault("first item done", now)
        left = sum(seen.lengths[state] for state in State if state is not State.FAILED)
        if (left or rest) and done > FILES // 10 and not story.killed:
            # Nothing else is done until a pod with items in progress has been found.
            if seen.lengths[State.MAIN] < PORTION:
                _enqueue(queue, story, rest[:PORTION])
                del rest[:PORTION]
            story.killed = _kill(release.cluster, queue)
            if story.killed:
                _enqueue(queue, story, rest)
                say(f"          enqueued {len(rest):,} more, {len(UNREADABLE)} of them unreadable on purpose")
                rest.clear()
            continue
        pods = _workers(release.cluster)
        story.most_workers = max(story.most_workers, len(pods))
        if not left:
            story.moments.setdefault("all done", now)
            if not pods:
                story.moments["no worker left"] = now
                return
        if now >= next_look:
            shown, next_look = _show(release.cluster, now, shown), now + SHOW_SECONDS
        time.sleep(0.1)
    said = release.cluster.kubectl("describe", "rq", "checksums", f"--namespace={WHERE}")
    raise DemoFailed(f"not done after {PATIENCE:.0f} s; the queue before it was deleted:\n{said}")


def _show(cluster: Cluster, now: float, shown: str) -> str:
    """Prints the row of `kubectl get rq` if it has changed; returns it."""
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
    """Kills a pod whose worker has items in progress; returns its name, or an empty text if none has any."""
    for info in queue.workers():
        if info.busy:
            pod = info.worker.partition(".")[0]
            words = ("delete", "pod", pod, f"--namespace={WHERE}", "--grace-period=0", "--force")
            cluster.kubectl(*words)
            say(f"          killed the pod {pod} with {info.busy} items in progress")
            return pod
    return ""


def _print_failed(failed: dict[str, FailedFile]) -> None:
    for one in list(failed.values())[:10]:
        say(f"failed after {one.requeue_count} requeues: {one.path.decode()}: {one.reason}")


if __name__ == "__main__":
    sys.exit(main())
