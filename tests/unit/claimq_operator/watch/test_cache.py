"""The cache, with events in any order."""

import copy
import json
from typing import Any

import pytest

from claimq_kubernetes.queue_resource import Key, read_queue
from claimq_operator.watch.cache import Cache, trim_deployment, trim_queue
from testkit.kubernetes.kubernetes_objects import deployment_body, pod_body, replica_set

KEY = ("media", "thumbs")


@pytest.fixture
def news() -> list[Key]:
    return []


@pytest.fixture
def cache(news: list[Key]) -> Cache:
    return Cache(news.append)


def queue(version: int, **metadata: Any) -> dict[str, Any]:
    head = {
        "name": "thumbs",
        "namespace": "media",
        "uid": "u",
        "generation": 1,
        "resourceVersion": str(version),
    }
    return {"metadata": {**head, **metadata}, "spec": {}}


def deployment(version: int) -> dict[str, Any]:
    body = deployment_body(1)
    return {**body, "metadata": {**body["metadata"], "resourceVersion": str(version)}}


def terminated(body: dict[str, Any]) -> dict[str, Any]:
    gone = copy.deepcopy(body)
    ended = {"containerID": "containerd://x", "exitCode": 1, "finishedAt": "2026-01-01T00:10:00Z"}
    gone["status"]["initContainerStatuses"][0]["state"] = {"terminated": ended}
    return gone


def test_an_older_event_changes_nothing(cache: Cache) -> None:
    cache.update_queue(queue(10, generation=2))
    cache.update_queue(queue(9, generation=1))
    found = cache.queue(KEY)
    assert found is not None
    assert found["metadata"]["generation"] == 2


def test_versions_are_compared_as_numbers(cache: Cache) -> None:
    cache.update_queue(queue(9))
    cache.update_queue(queue(10, generation=2))
    found = cache.queue(KEY)
    assert found is not None
    assert found["metadata"]["generation"] == 2


def test_a_status_write_of_the_operator_is_not_reported_as_a_change(cache: Cache, news: list[Key]) -> None:
    cache.update_queue(queue(1))
    news.clear()
    cache.update_queue({**queue(2), "status": {"items": {"main": 1}}})
    assert news == []


def test_a_changed_annotation_is_reported(cache: Cache, news: list[Key]) -> None:
    cache.update_queue(queue(1))
    news.clear()
    cache.update_queue(queue(2, annotations={"claimq.dev/pause-reconcile": "true"}))
    assert news == [KEY]


def test_the_deletion_of_an_older_queue_of_the_same_name_keeps_the_new_one(cache: Cache) -> None:
    cache.update_queue(queue(5, uid="new"))
    cache.update_queue(queue(4, uid="old"), is_gone=True)
    assert cache.queues() == [KEY]


def test_a_queue_whose_recreation_was_missed_is_reported_as_deleted_first() -> None:
    is_there: list[bool] = []

    def changed(key: Key) -> None:
        is_there.append(seen.queue(key) is not None)

    seen = Cache(changed)
    seen.update_queue(queue(1, uid="old"))
    seen.update_queue(queue(2, uid="new"))
    assert is_there == [True, False, True]


def test_a_listing_removes_missing_objects_and_reports_the_change(cache: Cache, news: list[Key]) -> None:
    cache.update_queue(queue(1))
    cache.update_deployment(deployment_body(1))
    cache.update_pod(pod_body("a"))
    news.clear()
    cache.resync([], [], [], before=cache.uids())
    assert (cache.queues(), cache.deployment(KEY), cache.pods(KEY)) == ([], None, [])
    assert KEY in news


def test_an_object_that_was_created_while_the_lists_were_read_stays(cache: Cache) -> None:
    before = cache.uids()
    cache.update_queue(queue(1))
    cache.update_deployment(deployment_body(1))
    cache.update_pod(pod_body("a"))
    cache.resync([], [], [], before=before)
    assert cache.queues() == [KEY]
    assert cache.deployment(KEY) is not None
    assert len(cache.pods(KEY)) == 1


def test_an_older_list_or_reply_does_not_bring_a_deleted_object_back(cache: Cache, news: list[Key]) -> None:
    pod = pod_body("a")
    cache.update_queue(queue(5))
    cache.update_deployment(deployment(5))
    cache.update_pod(pod)
    cache.update_queue(queue(5), is_gone=True)
    cache.update_deployment(deployment(6), is_gone=True)
    cache.update_pod(pod, is_gone=True)
    news.clear()
    cache.update_queue(queue(5))
    cache.update_deployment(deployment(5))
    cache.update_pod(pod)
    cache.resync([queue(4)], [deployment(4)], [pod], before=frozenset())
    assert (cache.queues(), cache.deployment(KEY), cache.pods(KEY), news) == ([], None, [], [])


def test_an_object_that_a_watch_reported_as_deleted_comes_back_with_a_newer_version(cache: Cache) -> None:
    """A watch with a selector also says DELETED when an object has lost its label."""
    cache.update_deployment(deployment(5))
    cache.update_deployment(deployment(6), is_gone=True)
    cache.update_deployment(deployment(7))
    assert cache.deployment(KEY) is not None


def test_a_namespace_that_could_not_be_listed_keeps_what_was_known(cache: Cache, news: list[Key]) -> None:
    cache.update_queue(queue(1))
    cache.update_deployment(deployment_body(1))
    cache.update_pod(pod_body("a"))
    news.clear()
    cache.resync([], [], [], before=cache.uids(), unknown={"media"})
    assert cache.queues() == [KEY]
    assert cache.deployment(KEY) is not None
    assert len(cache.pods(KEY)) == 1
    assert news == []


def test_each_run_of_a_sidecar_that_restarts_between_two_passes_is_kept(cache: Cache) -> None:
    for run in (1, 2):
        body = terminated(pod_body("a"))
        body["metadata"]["resourceVersion"] = str(run)
        body["status"]["initContainerStatuses"][0]["state"]["terminated"]["containerID"] = (
            f"containerd://{run}"
        )
        cache.update_pod(body)
    terminations = cache.terminations(KEY)
    assert {termination.container_id for termination in terminations} == {"containerd://1", "containerd://2"}
    cache.mark_handled(terminations, KEY)
    assert {one.container_id for one in cache.terminations(KEY)} == {"containerd://2"}


def test_the_termination_of_a_deleted_pod_is_kept_until_it_is_handled(cache: Cache) -> None:
    cache.update_pod(pod_body("a"))
    cache.update_pod(terminated(pod_body("a")), is_gone=True)
    terminations = cache.terminations(KEY)
    assert [termination.container_id for termination in terminations] == ["containerd://x"]
    cache.mark_handled(terminations, KEY)
    assert cache.terminations(KEY) == ()


def test_a_deleted_pod_that_was_last_seen_running_proves_nothing(cache: Cache) -> None:
    cache.update_pod(pod_body("a"))
    cache.update_pod(pod_body("a"), is_gone=True)
    assert cache.terminations(KEY) == ()


def test_terminations_of_a_deleted_queue_are_dropped(cache: Cache) -> None:
    cache.update_queue(queue(1))
    cache.update_pod(terminated(pod_body("a")), is_gone=True)
    cache.update_queue(queue(1), is_gone=True)
    assert cache.terminations(KEY) == ()


def test_terminations_of_pods_that_outlive_their_queue_are_dropped(cache: Cache) -> None:
    cache.update_queue(queue(1))
    cache.update_pod(pod_body("a"))
    cache.update_queue(queue(1), is_gone=True)
    cache.update_pod(terminated(pod_body("a")), is_gone=True)
    cache.resync([], [], [], before=cache.uids())
    assert cache.terminations(KEY) == ()


@pytest.mark.parametrize(
    "owners",
    [
        [],
        [{**replica_set("thumbs", "aaa"), "controller": False}],
        [{**replica_set("thumbs", "aaa"), "kind": "Job", "apiVersion": "batch/v1"}],
        [replica_set("thumbs", "bbb")],
        [replica_set("another", "aaa")],
    ],
    ids=["no owner", "not its controller", "a Job", "another template", "another Deployment"],
)
def test_a_labelled_pod_that_the_deployment_does_not_control_is_ignored(
    cache: Cache, news: list[Key], owners: list[dict[str, object]]
) -> None:
    body = terminated(pod_body("a"))
    body["metadata"]["ownerReferences"] = owners
    cache.update_pod(body)
    cache.update_pod(body, is_gone=True)
    cache.resync([], [], [body], before=cache.uids())
    assert (cache.pods(KEY), cache.terminations(KEY), news) == ([], (), [])


def test_objects_without_the_queue_label_are_ignored(cache: Cache, news: list[Key]) -> None:
    body = pod_body("a")
    del body["metadata"]["labels"]
    cache.update_pod(body)
    assert news == []


def test_a_cached_deployment_has_no_template_and_only_the_owners_of_replicas(
    cache: Cache,
) -> None:
    body = deployment_body(2)
    body["spec"]["template"] = {"spec": {"containers": [{"name": "worker", "image": "app:1"}]}}
    cache.update_deployment(body)
    kept = cache.deployment(KEY)
    assert kept is not None
    assert kept["spec"] == {"replicas": 2}
    assert kept["status"] == body["status"]
    assert [one["manager"] for one in kept["metadata"]["managedFields"]] == ["claimq-scale"]
    assert trim_deployment(kept) == kept


def test_a_cached_queue_has_only_what_the_operator_uses(cache: Cache) -> None:
    ours = {"claimq.dev/pause-reconcile": "true"}
    fields: dict[str, Any] = {"managedFields": [{"manager": "kubectl"}], "labels": {"a": "b"}}
    cache.update_queue(queue(1, **fields, annotations={"a": "b", **ours}))
    assert cache.queue(KEY) == queue(1, annotations=ours)


def test_a_spec_that_is_too_large_is_not_kept_but_reported(cache: Cache) -> None:
    body = queue(1)
    body["spec"]["worker"] = {"image": "app:1", "args": ["x" * 70_000]}
    body["status"] = {"conditions": ["x" * 70_000]}
    cache.update_queue(body)
    kept = cache.queue(KEY)
    assert kept is not None
    assert len(str(kept)) < 2000
    resource = read_queue(kept)
    assert resource.spec is None
    (problem,) = resource.problems
    assert problem.field == "spec"
    assert "give at most 65,536" in problem.message
    assert trim_queue(kept) == kept


def large_metadata(body: dict[str, Any]) -> dict[str, Any]:
    """The object with as much as a user can write into its metadata and status."""
    metadata = body["metadata"]
    texts = {"claimq.dev/more": "x" * 100_000, "claimq.dev/take-over-from": "x" * 100_000}
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "controller": False}
    more: dict[str, Any] = {
        "labels": {**metadata.get("labels", {}), **{f"label-{n}": "x" * 60 for n in range(2000)}},
        "annotations": {**texts, "controller.kubernetes.io/pod-deletion-cost": "x" * 100_000},
        "finalizers": [f"example.com/finalizer-{n}" for n in range(5000)],
        "ownerReferences": [
            *metadata.get("ownerReferences", []),
            *({**owner, "name": f"map-{n}", "uid": str(n)} for n in range(2000)),
            {**owner, "controller": True, "name": "map", "uid": "x" * 100_000},
        ],
        "managedFields": [
            {"manager": f"manager-{n}", "fieldsV1": {"f:spec": {"f:replicas": {}}}} for n in range(2000)
        ],
    }
    status = {"conditions": [{"type": "Ready", "message": "x" * 1_000_000}]}
    return {**body, "metadata": {**metadata, **more}, "status": status}


def test_little_is_kept_of_what_a_user_writes_into_an_object(cache: Cache) -> None:
    cache.update_queue(large_metadata(queue(1)))
    cache.update_deployment(large_metadata(deployment(1)))
    pod = pod_body("a")
    pod["spec"]["containers"] += [{"name": f"more-{n}", "image": "x" * 1000} for n in range(500)]
    cache.update_pod(large_metadata(pod))
    for kept in (cache.queue(KEY), cache.deployment(KEY), *cache.pods(KEY)):
        assert kept is not None
        assert len(json.dumps(kept)) < 2000
    assert len(cache.pods(KEY)) == 1
