"""What is known of the cluster, whatever order its events come in."""

import copy
from typing import Any

import pytest

from claimq_operator.queue_resource import Key
from claimq_operator.sightings import Sightings, trimmed_deployment
from testkit.kubernetes_objects import deployment_body, pod_body

KEY = ("media", "thumbs")


@pytest.fixture
def news() -> list[Key]:
    return []


@pytest.fixture
def sightings(news: list[Key]) -> Sightings:
    return Sightings(news.append)


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


def test_an_older_event_changes_nothing(sightings: Sightings) -> None:
    sightings.see_queue(queue(10, generation=2))
    sightings.see_queue(queue(9, generation=1))
    found = sightings.queue(KEY)
    assert found is not None
    assert found["metadata"]["generation"] == 2


def test_versions_are_compared_as_numbers(sightings: Sightings) -> None:
    sightings.see_queue(queue(9))
    sightings.see_queue(queue(10, generation=2))
    found = sightings.queue(KEY)
    assert found is not None
    assert found["metadata"]["generation"] == 2


def test_our_own_write_of_a_status_is_no_news(sightings: Sightings, news: list[Key]) -> None:
    sightings.see_queue(queue(1))
    news.clear()
    sightings.see_queue({**queue(2), "status": {"items": {"main": 1}}})
    assert news == []


def test_an_annotation_is_news(sightings: Sightings, news: list[Key]) -> None:
    sightings.see_queue(queue(1))
    news.clear()
    sightings.see_queue(queue(2, annotations={"claimq.dev/pause-reconcile": "true"}))
    assert news == [KEY]


def test_the_end_of_an_older_queue_of_the_same_name_leaves_the_new_one(sightings: Sightings) -> None:
    sightings.see_queue(queue(5, uid="new"))
    sightings.see_queue(queue(4, uid="old"), is_gone=True)
    assert sightings.queues() == [KEY]


def test_a_queue_that_was_made_anew_unseen_is_told_as_gone_first() -> None:
    is_there: list[bool] = []

    def changed(key: Key) -> None:
        is_there.append(seen.queue(key) is not None)

    seen = Sightings(changed)
    seen.see_queue(queue(1, uid="old"))
    seen.see_queue(queue(2, uid="new"))
    assert is_there == [True, False, True]


def test_a_listing_forgets_what_is_gone_and_tells_it(sightings: Sightings, news: list[Key]) -> None:
    sightings.see_queue(queue(1))
    sightings.see_deployment(deployment_body(1))
    sightings.see_pod(pod_body("a"))
    news.clear()
    sightings.resync([], [], [])
    assert (sightings.queues(), sightings.deployment(KEY), sightings.pods(KEY)) == ([], None, [])
    assert KEY in news


def test_a_namespace_that_could_not_be_listed_keeps_what_was_known(
    sightings: Sightings, news: list[Key]
) -> None:
    sightings.see_queue(queue(1))
    sightings.see_deployment(deployment_body(1))
    sightings.see_pod(pod_body("a"))
    news.clear()
    sightings.resync([], [], [], unknown={"media"})
    assert sightings.queues() == [KEY]
    assert sightings.deployment(KEY) is not None
    assert len(sightings.pods(KEY)) == 1
    assert news == []


def test_a_pod_that_is_gone_still_proves_its_death(sightings: Sightings) -> None:
    sightings.see_pod(pod_body("a"))
    sightings.see_pod(terminated(pod_body("a")), is_gone=True)
    deaths = sightings.deaths(KEY)
    assert [death.container_id for death in deaths] == ["containerd://x"]
    sightings.dealt_with(deaths, KEY)
    assert sightings.deaths(KEY) == ()


def test_a_pod_that_ran_when_it_was_last_seen_proves_nothing(sightings: Sightings) -> None:
    sightings.see_pod(pod_body("a"))
    sightings.see_pod(pod_body("a"), is_gone=True)
    assert sightings.deaths(KEY) == ()


def test_deaths_of_a_queue_that_is_gone_are_forgotten(sightings: Sightings) -> None:
    sightings.see_queue(queue(1))
    sightings.see_pod(terminated(pod_body("a")), is_gone=True)
    sightings.see_queue(queue(1), is_gone=True)
    assert sightings.deaths(KEY) == ()


def test_deaths_of_pods_that_go_after_their_queue_are_forgotten(sightings: Sightings) -> None:
    sightings.see_queue(queue(1))
    sightings.see_pod(pod_body("a"))
    sightings.see_queue(queue(1), is_gone=True)
    sightings.see_pod(terminated(pod_body("a")), is_gone=True)
    sightings.resync([], [], [])
    assert sightings.deaths(KEY) == ()


def test_objects_without_our_label_are_none_of_ours(sightings: Sightings, news: list[Key]) -> None:
    body = pod_body("a")
    del body["metadata"]["labels"]
    sightings.see_pod(body)
    assert news == []


def test_of_a_deployment_no_template_is_kept_and_of_its_fields_owners_only_the_replicas(
    sightings: Sightings,
) -> None:
    body = deployment_body(2)
    body["spec"]["template"] = {"spec": {"containers": [{"name": "worker", "image": "app:1"}]}}
    sightings.see_deployment(body)
    kept = sightings.deployment(KEY)
    assert kept is not None
    assert kept["spec"] == {"replicas": 2}
    assert kept["status"] == body["status"]
    assert [one["manager"] for one in kept["metadata"]["managedFields"]] == ["claimq-scale"]
    assert trimmed_deployment(kept) == kept


def test_of_a_queue_all_is_kept_but_who_wrote_which_field(sightings: Sightings) -> None:
    sightings.see_queue(queue(1, managedFields=[{"manager": "kubectl"}], annotations={"a": "b"}))
    assert sightings.queue(KEY) == queue(1, annotations={"a": "b"})
