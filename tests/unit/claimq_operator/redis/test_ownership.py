"""Which names on the server a queue may use, and where its password may be sent."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from claimq.redis_url import parse_url
from claimq_operator.decide.observed import Observed
from claimq_operator.decide.plan import Memory, plan
from claimq_operator.fault import OWNED_BY_ANOTHER, Fault
from claimq_operator.grants import Grants
from claimq_operator.kubernetes_api.queue_resource import QueueResource
from claimq_operator.redis.ownership import name_fault
from claimq_operator.redis.password_hosts import is_allowed, parse_hosts, password_refs
from claimq_operator.settings import OperatorSettings
from claimq_spec.manifest import PasswordSecretRef, RedisSpec, SentinelSpec, UrlSecretRef

Queue = Callable[..., QueueResource]
Look = Callable[..., Observed]


def fault(queue: QueueResource, settings: OperatorSettings, *grants: tuple[str, str]) -> str:
    assert queue.spec is not None
    found = name_fault(queue, queue.spec, replace(settings, queue_names=Grants(grants)))
    return "" if found is None else found.message


@pytest.mark.parametrize("name", ["media.thumbs", "media.other", "media.a.b"])
def test_names_that_begin_with_the_namespace_are_its_own(
    queue: Queue, settings: OperatorSettings, name: str
) -> None:
    assert fault(queue(queueName=name), settings) == ""


@pytest.mark.parametrize(
    "name", ["shop.orders", "media", "mediax.orders", "orders", "Media.orders", "media-2.orders"]
)
def test_other_names_need_a_setting_for_the_namespace(
    queue: Queue, settings: OperatorSettings, name: str
) -> None:
    made = queue(queueName=name)
    said = fault(made, settings, ("shop", "*"), ("med", name))
    assert "spec.queueName" in said
    assert f"media={name}" in said
    assert fault(made, settings, ("media", name)) == ""
    assert fault(made, settings, ("m*", name[:2] + "*")) == ""


HOSTS = {
    "redis": ["redis://redis", "redis://redis:7/3", "rediss://REDIS:6380"],
    "redis:6379": ["redis://redis", "redis://redis:6379/2"],
    "*.team.svc": ["redis://a.team.svc:1", "redis+sentinel://a.team.svc,b.team.svc/main"],
    "rediss://redis": ["rediss://redis"],
    "[::1]:6379": ["redis://[::1]"],
}


@pytest.mark.parametrize("entry", HOSTS)
def test_a_password_goes_to_the_hosts_of_an_entry(entry: str) -> None:
    for url in HOSTS[entry]:
        assert is_allowed(parse_url(url), [entry])


@pytest.mark.parametrize(
    ("entry", "url"),
    [
        ("redis", "redis://redis.evil.example"),
        ("redis", "redis://evil"),
        ("redis:6379", "redis://redis:6380"),
        ("rediss://redis", "redis://redis"),
        ("*.team.svc", "redis://team.svc.evil"),
        ("redis", "redis+cluster://redis,evil"),
        ("redis", "redis+sentinel://redis,evil/main"),
        ("*", "unix:///run/redis.sock"),
        ("", "redis://redis"),
    ],
)
def test_a_password_is_sent_to_no_other_host(entry: str, url: str) -> None:
    assert not is_allowed(parse_url(url), parse_hosts(entry))


def test_entries_are_separated_by_commas_blanks_and_lines() -> None:
    assert parse_hosts(" a:1, b\n*.c\n") == ("a:1", "b", "*.c")


def test_a_password_in_the_secret_of_the_address_goes_to_that_address() -> None:
    password, other = PasswordSecretRef(name="redis"), PasswordSecretRef(name="watch")
    sentinel = SentinelSpec(master_name="main", password_secret_ref=other)
    together = RedisSpec(
        secret_ref=UrlSecretRef(name="redis"), password_secret_ref=password, sentinel=sentinel
    )
    assert password_refs(together) == (other,)
    assert password_refs(replace(together, secret_ref=None, url="redis://evil")) == (password, other)
    assert password_refs(RedisSpec(url="redis://redis")) == ()


def test_a_queue_without_access_gets_no_children_and_no_workers(
    observed: Look, settings: OperatorSettings
) -> None:
    denied = Fault("PasswordHostForbidden", "no", needs_action=True, denied=True)
    for replicas in (None, 0, 2):
        look = observed(replicas=replicas, unknown=True, scaling={"minReplicas": 3})
        decided = plan(replace(look, redis_fault=denied), Memory(), settings, now=0.0, clock=0.0)
        assert (decided.children, decided.replicas, decided.hold_replicas) == ((), None, None)
        stalled = next(one for one in decided.status["conditions"] if one["type"] == "Stalled")
        assert (stalled["status"], stalled["reason"]) == ("True", "PasswordHostForbidden")


def test_workers_of_a_queue_with_another_owner_are_removed(
    observed: Look, settings: OperatorSettings
) -> None:
    owned = Fault(OWNED_BY_ANOTHER, "no", needs_action=True, denied=True)
    look = replace(observed(replicas=2, unknown=True, scaling={"minReplicas": 3}), redis_fault=owned)
    decided = plan(look, Memory(), settings, now=0.0, clock=0.0)
    assert (decided.children, decided.replicas) == ((), 0)
