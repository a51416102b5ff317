"""The checksum example as it stands: every file done exactly once, and `kubectl get rq` right at every stage."""

from collections.abc import Iterator
from typing import Any

import pytest

from claimq.model import State
from testkit.on_cluster.queue_on_cluster import QueueOnCluster, queue_on
from testkit.on_cluster.release import Release
from testkit.programs.examples import load

pytestmark = pytest.mark.cluster

accounting: Any = load("accounting")
on_cluster: Any = load("on_cluster")
FILES, MOST = 2000, 4
STATES = ("main", "busy", "failed")


@pytest.fixture
def example(release: Release, team: str) -> Iterator[Any]:
    """The example's volume and the pod that sees the workers' files; the test applies the queue."""
    made = on_cluster.ChecksumsOnCluster(release, team, "claimq-tests-results")
    made.prepare()
    yield made
    made.clear()


@pytest.fixture
def queue(release: Release, team: str) -> Iterator[QueueOnCluster]:
    with queue_on(release, team, on_cluster.NAME) as made:
        yield made


def numbers(queue: QueueOnCluster) -> tuple[int, ...]:
    """Main, busy and failed, by the server."""
    seen = queue.counters()
    return tuple(seen[f"in {state}"] for state in STATES)


def shown(queue: QueueOnCluster) -> tuple[int, ...]:
    """The same, by `kubectl get rq`."""
    row = queue.row()
    return tuple(int(row[state.upper()] or -1) for state in STATES)


def ready(queue: QueueOnCluster) -> int:
    """Workers that are ready, by their pods."""
    return sum(
        any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", []))
        for pod in queue.pods().values()
        if "deletionTimestamp" not in pod["metadata"]
    )


def wait_for_row(queue: QueueOnCluster, stage: str, is_ready: str, workers: str) -> None:
    """Nothing moves: the row becomes what server and cluster say, and the items do not change in between."""
    before = numbers(queue)
    row: dict[str, str] = {}

    def is_right() -> bool:
        row.update(queue.row())
        is_meant = (row["READY"], row["WORKERS"], shown(queue)) == (is_ready, workers, before)
        return is_meant and workers.partition("/")[0] == str(ready(queue))

    queue.wait(f"the row is right when {stage}", is_right)
    assert numbers(queue) == before, f"something moved when {stage}"
    assert bool(row["OLDEST"]) is bool(before[0]), "the age is that of the oldest item of main"
    print(f"{stage}: {row}")


def enqueue(queue: QueueOnCluster, paths: list[bytes], enqueued: dict[str, bytes]) -> None:
    """Enqueues the paths, in parts; `enqueued` gets their ids."""
    for at in range(0, len(paths), 500):
        part = paths[at : at + 500]
        enqueued.update(zip(queue.items.enqueue_many(part).ids, part, strict=True))


def test_two_thousand_files_are_done_once_each_and_the_row_is_right_at_every_stage(
    queue: QueueOnCluster, example: Any
) -> None:
    manifest = example.manifest()
    queue.cluster.apply(manifest, namespace=queue.namespace)
    queue.wait("the operator has seen it", lambda: queue.condition("Ready") == "True Working")
    wait_for_row(queue, "empty", "True", "0/0")

    # Held by hand, so that there is a moment at which everything is there and nothing moves.
    queue.items.pause()
    paths = [path.encode() for path in example.paths(FILES)]
    enqueued: dict[str, bytes] = {}
    enqueue(queue, paths[: FILES // 2], enqueued)
    queue.wait("one worker is there, as nothing may be claimed", lambda: ready(queue) == 1)
    wait_for_row(queue, "loaded", "True", "1/1")
    assert queue.condition("Ready") == "True PausedByHand"

    queue.items.resume()
    queue.wait("a part is done", lambda: queue.counters()["done"] >= FILES // 10, every=0.001)
    queue.items.pause()
    # The rest comes only now: however quick the workers are, a part is done and a part is not.
    enqueue(queue, paths[FILES // 2 :], enqueued)
    assert len(enqueued) == FILES + len(on_cluster.UNREADABLE)
    queue.wait("what was in progress is decided", lambda: numbers(queue)[1] == _delayed(queue) == 0)
    # A paused queue keeps the workers that it has.
    queue.wait("all workers that were ordered are there", lambda: ready(queue) == queue.replicas() != 0)
    assert FILES // 10 <= queue.counters()["done"] <= FILES // 2
    wait_for_row(queue, "partly done", "True", f"{ready(queue)}/{ready(queue)}")

    before = numbers(queue)
    queue.items.resume()
    rows = _watch_while_it_works(queue, before)
    print(f"{len(rows)} rows while it worked: {rows}")
    queue.wait("all is decided", lambda: numbers(queue) == (0, 0, len(on_cluster.UNREADABLE)))
    queue.wait("that is reported", lambda: shown(queue) == (0, 0, len(on_cluster.UNREADABLE)))
    queue.wait("the workers are gone", lambda: not queue.pods())
    wait_for_row(queue, "back at zero", "True", "0/0")

    results = [accounting.Result(*one) for one in example.results()]
    given_up = {key: accounting.FailedFile(*fields) for key, fields in on_cluster.failed(queue.items).items()}
    limit = manifest["spec"]["requeueLimit"]
    found = accounting.account(enqueued, results, given_up, example.sums(paths), limit)
    assert found.mistakes == []
    assert (found.right, found.repeats, found.failed) == (FILES, 0, len(on_cluster.UNREADABLE))
    assert queue.counters()["done"] == FILES


def _watch_while_it_works(queue: QueueOnCluster, before: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Rows that were seen until everything was decided, each right: between what the server said `before` the first of
    them, and what it said after each was read."""
    rows: list[tuple[int, ...]] = []
    readings = [before]

    def is_over() -> bool:
        row = shown(queue)
        readings.append(numbers(queue))
        if row not in rows[-1:]:
            rows.append(row)
        main, busy, failed = row
        # Some come back to main: those that fail, after a delay, and what a worker that is asked to end gives back.
        coming_back = len(on_cluster.UNREADABLE) + MOST * 20
        assert readings[-1][0] - coming_back <= main <= readings[0][0] + coming_back, (row, readings)
        assert failed <= readings[-1][2], (row, readings)
        assert busy <= MOST * 20, (row, readings)
        return readings[-1][0] == readings[-1][1] == 0 and not _delayed(queue)

    queue.wait("all is decided", is_over, timeout=600, every=0.01)
    return rows


def _delayed(queue: QueueOnCluster) -> int:
    return queue.items.snapshot().lengths[State.DELAYED]
