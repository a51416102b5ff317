"""What is known of the cluster, whatever order its events come in."""

import copy
from typing import Any

import pytest

from claimq_operator.kubernetes_api.queue_resource import Key
from claimq_operator.watch.cache import Cache, trimmed_deployment
from testkit.kubernetes_objects import deployment_body, pod_body

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


def terminated(body: dict[str, Any]) -> dict[str, Any]:
    gone = copy.deepcopy(body)
    ended = {"containerID": "containerd://x", "exitCode": 1, "finishedAt": "2026-01-01T00:10:00Z"}
    gone["status"]["initContainerStatuses"][0]["state"] = {"terminated": ended}
    return gone


def test_an_older_event_changes_nothing(cache: Cache) -> None:
    cache.see_queue(queue(10, generation=2))
    cache.see_queue(queue(9, generation=1))
    found = cache.queue(KEY)
    assert found is not None
    assert found["metadata"]["generation"] == 2


def test_versions_are_compared_as_numbers(cache: Cache) -> None:
    cache.see_queue(queue(9))
    cache.see_queue(queue(10, generation=2))
    found = cache.queue(KEY)
    assert found is not None
    assert found["metadata"]["generation"] == 2


def test_our_own_write_of_a_status_is_no_news(cache: Cache, news: list[Key]) -> None:
    cache.see_queue(queue(1))
    news.clear()
    cache.see_queue({**queue(2), "status": {"items": {"main": 1}}})
    assert news == []


def test_an_annotation_is_news(cache: Cache, news: list[Key]) -> None:
    cache.see_queue(queue(1))
    news.clear()
    cache.see_queue(queue(2, annotations={"claimq.dev/pause-reconcile": "true"}))
    assert news == [KEY]


def test_the_end_of_an_older_queue_of_the_same_name_leaves_the_new_one(cache: Cache) -> None:
    cache.see_queue(queue(5, uid="new"))
    cache.see_queue(queue(4, uid="old"), is_gone=True)
    assert cache.queues() == [KEY]


def test_a_queue_that_was_made_anew_unseen_is_told_as_gone_first() -> None:
    is_there: list[bool] = []

    def changed(key: Key) -> None:
        is_there.append(seen.queue(key) is not None)

    seen = Cache(changed)
    seen.see_queue(queue(1, uid="old"))
    seen.see_queue(queue(2, uid="new"))
    assert is_there == [True, False, True]


def test_a_listing_forgets_what_is_gone_and_tells_it(cache: Cache, news: list[Key]) -> None:
    cache.see_queue(queue(1))
    cache.see_deployment(deployment_body(1))
    cache.see_pod(pod_body("a"))
    news.clear()
    cache.resync([], [], [])
    assert (cache.queues(), cache.deployment(KEY), cache.pods(KEY)) == ([], None, [])
    assert KEY in news


def test_a_namespace_that_could_not_be_listed_keeps_what_was_known(cache: Cache, news: list[Key]) -> None:
    cache.see_queue(queue(1))
    cache.see_deployment(deployment_body(1))
    cache.see_pod(pod_body("a"))
    news.clear()
    cache.resync([], [], [], unknown={"media"})
    assert cache.queues() == [KEY]
    assert cache.deployment(KEY) is not None
    assert len(cache.pods(KEY)) == 1
    assert news == []


def test_a_pod_that_is_gone_still_proves_its_death(cache: Cache) -> None:
    cache.see_pod(pod_body("a"))
    cache.see_pod(terminated(pod_body("a")), is_gone=True)
    deaths = cache.deaths(KEY)
    assert [death.container_id for death in deaths] == ["containerd://x"]
    cache.dealt_with(deaths, KEY)
    assert cache.deaths(KEY) == ()


def test_a_pod_that_ran_when_it_was_last_seen_proves_nothing(cache: Cache) -> None:
    cache.see_pod(pod_body("a"))
    cache.see_pod(pod_body("a"), is_gone=True)
    assert cache.deaths(KEY) == ()


def test_deaths_of_a_queue_that_is_gone_are_forgotten(cache: Cache) -> None:
    cache.see_queue(queue(1))
    cache.see_pod(terminated(pod_body("a")), is_gone=True)
    cache.see_queue(queue(1), is_gone=True)
    assert cache.deaths(KEY) == ()


def test_deaths_of_pods_that_go_after_their_queue_are_forgotten(cache: Cache) -> None:
    cache.see_queue(queue(1))
    cache.see_pod(pod_body("a"))
    cache.see_queue(queue(1), is_gone=True)
    cache.see_pod(terminated(pod_body("a")), is_gone=True)
    cache.resync([], [], [])
    assert cache.deaths(KEY) == ()


def test_objects_without_our_label_are_none_of_ours(cache: Cache, news: list[Key]) -> None:
    body = pod_body("a")
    del body["metadata"]["labels"]
    cache.see_pod(body)
    assert news == []


def test_of_a_deployment_no_template_is_kept_and_of_its_fields_owners_only_the_replicas(
    cache: Cache,
) -> None:
    body = deployment_body(2)
    body["spec"]["template"] = {"spec": {"containers": [{"name": "worker", "image": "app:1"}]}}
    cache.see_deployment(body)
    kept = cache.deployment(KEY)
    assert kept is not None
    assert kept["spec"] == {"replicas": 2}
    assert kept["status"] == body["status"]
    assert [one["manager"] for one in kept["metadata"]["managedFields"]] == ["claimq-scale"]
    assert trimmed_deployment(kept) == kept


def test_of_a_queue_all_is_kept_but_who_wrote_which_field(cache: Cache) -> None:
    cache.see_queue(queue(1, managedFields=[{"manager": "kubectl"}], annotations={"a": "b"}))
    assert cache.queue(KEY) == queue(1, annotations={"a": "b"})
