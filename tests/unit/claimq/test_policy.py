"""The policy: its defaults, what it refuses, and its form in the queue's config."""

import re
from dataclasses import fields, replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claimq.limits import Limit
from claimq.policy import (
    POLICY_FIELDS,
    Durability,
    FailedPolicy,
    KeyOrder,
    Match,
    MaxWaiting,
    OnExpiry,
    Policy,
    RetryDelay,
)
from claimq.waiting.fairness import Fairness, Turns
from testkit.repository.tree import ROOT

SCRIPTS = ROOT / "core/src/claimq/redis_store/lua"


def test_the_defaults_are_those_that_the_documents_say() -> None:
    policy = Policy()
    assert (policy.requeue_limit, policy.busy_expiry, policy.on_expiry) == (5, 30.0, OnExpiry.REQUEUE)
    assert policy.retry_delay == RetryDelay(initial=1, factor=2, max=300, jitter=0.2)
    assert (policy.claim_wait_timeout, policy.max_payload, policy.id_window) == (1.0, 1024 * 1024, 3600.0)
    assert policy.failed == FailedPolicy(None, None, None, None, None)
    assert (policy.durability, policy.durability_replicas) == (Durability.PRIMARY, 1)


def test_no_config_at_all_means_the_defaults() -> None:
    assert Policy.from_fields({}) == Policy()


seconds = st.integers(0, 86_400_000).map(lambda ms: ms / 1000)
counts = st.integers(0, 10**6)
retry_delays = st.builds(
    RetryDelay, initial=seconds, factor=st.floats(1, 100), max=seconds, jitter=st.floats(0, 1)
)
failed_policies = st.one_of(
    st.builds(FailedPolicy, max_items=st.none() | counts.filter(bool)),
    st.builds(
        FailedPolicy,
        requeue_min_age=seconds,
        requeue_max_given_up_count=st.none() | counts.filter(bool),
        remove_min_age=seconds,
        remove_min_given_up_count=st.none() | counts,
        remove_match=st.sampled_from(Match),
    ),
    st.builds(FailedPolicy, remove_min_given_up_count=counts, remove_match=st.just(Match.EITHER)),
)
policies = st.builds(
    Policy,
    requeue_limit=counts,
    busy_expiry=seconds.filter(bool),
    on_expiry=st.sampled_from(OnExpiry),
    retry_delay=retry_delays,
    claim_wait_timeout=st.none() | seconds,
    max_payload=counts.filter(bool),
    id_window=seconds.filter(lambda window: window >= 1),
    failed=failed_policies,
)


@given(policies)
def test_every_policy_comes_back_from_its_config_as_it_was(policy: Policy) -> None:
    assert Policy.from_fields(policy.to_fields()) == policy


@given(policies)
def test_every_field_of_the_config_is_text(policy: Policy) -> None:
    assert all(isinstance(value, str) for value in policy.to_fields().values())


def test_every_field_of_the_policy_is_in_the_config() -> None:
    """A field that is forgotten there would be ignored by the scripts."""
    different: dict[str, Any] = {
        "requeue_limit": 7, "max_postponed": 7, "busy_expiry": 7.0, "on_expiry": OnExpiry.DROP,
        "retry_delay": RetryDelay(initial=7.0), "key_order": KeyOrder.STRICT,
        "claim_wait_timeout": 7.0, "max_payload": 7, "id_window": 7.0, "failed": FailedPolicy(max_items=7),
        "max_waiting": MaxWaiting(per_client_items=7),
        "durability": Durability.FSYNCED, "durability_replicas": 2, "appendfsync_always": True,
        "fairness": Fairness(by=Turns.COUNT, weights={"ann": 3, "b=b": 0.5}),
        "durable_done": True, "suspended": True, "limits": [Limit("a", busy=7)],
    }  # fmt: skip
    assert set(different) == {field.name for field in fields(Policy)}
    for name, value in different.items():
        changed = Policy(**{name: value})
        assert changed.to_fields() != Policy().to_fields(), name
        assert Policy.from_fields(changed.to_fields()) == changed


def test_unknown_config_fields_of_a_later_release_are_left_alone() -> None:
    assert Policy.from_fields({"something_new": "7", "requeue_limit": "3"}) == Policy(requeue_limit=3)


@pytest.mark.parametrize("value", ["", "many", "nan", "inf", "1e999", "0x10"])
def test_a_config_value_that_is_no_number_names_the_field(value: str) -> None:
    with pytest.raises(ValueError, match=r"busy_expiry_ms is .*set it to a number"):
        Policy.from_fields({"busy_expiry_ms": value})


def test_an_unknown_on_expiry_in_the_config_is_refused() -> None:
    with pytest.raises(ValueError, match="burn"):
        Policy.from_fields({"on_expiry": "burn"})


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Policy(requeue_limit=-1), "requeue_limit is -1; give 0 to 1,000,000"),
        (lambda: Policy(busy_expiry=0), "busy_expiry is 0"),
        (lambda: Policy(busy_expiry=float("nan")), "busy_expiry is nan"),
        (lambda: Policy(busy_expiry=float("inf")), "busy_expiry is inf"),
        (lambda: Policy(claim_wait_timeout=-0.1), "claim_wait_timeout"),
        (lambda: Policy(max_payload=0), "max_payload"),
        (lambda: Policy(id_window=0.5), "id_window"),
        (lambda: RetryDelay(initial=-1), "retry_delay.initial"),
        (lambda: RetryDelay(factor=0.5), "retry_delay.factor"),
        (lambda: RetryDelay(max=-1), "retry_delay.max"),
        (lambda: RetryDelay(jitter=1.1), "retry_delay.jitter is 1.1; give 0 to 1"),
        (lambda: RetryDelay(jitter=float("nan")), "retry_delay.jitter"),
        (lambda: FailedPolicy(requeue_min_age=-1), "failed.requeue_min_age"),
        (
            lambda: FailedPolicy(requeue_min_age=1, requeue_max_given_up_count=0),
            "failed.requeue_max_given_up_count",
        ),
        (lambda: FailedPolicy(remove_min_age=float("nan")), "failed.remove_min_age"),
        (
            lambda: FailedPolicy(remove_min_age=1, remove_min_given_up_count=-1),
            "failed.remove_min_given_up_count",
        ),
        (lambda: FailedPolicy(max_items=0), "failed.max_items"),
        (lambda: MaxWaiting(items=0), "max_waiting.items is 0; give 1 to"),
        (lambda: MaxWaiting(per_client_items=0), "max_waiting.per_client_items is 0; give 1 to"),
        (lambda: MaxWaiting(bytes=0), "max_waiting.bytes is 0; give 1 to"),
        (
            lambda: FailedPolicy(requeue_max_given_up_count=3),
            "failed.requeue_max_given_up_count does nothing without failed.requeue_min_age; give both",
        ),
        (
            lambda: FailedPolicy(remove_min_given_up_count=3),
            "failed.remove_min_given_up_count does nothing without failed.remove_min_age; give both",
        ),
        (lambda: Policy(busy_expiry=1e17), "busy_expiry is 1e+17; give 0.001 to 604,800 seconds"),
        (lambda: Policy(claim_wait_timeout=86401), "claim_wait_timeout is 86401; give 0 to 86,400 seconds"),
        (lambda: Policy(id_window=1e9), "id_window"),
        (lambda: Policy(max_payload=2**29 + 1), "max_payload is 536870913; give 1 to 536,870,912"),
        (lambda: RetryDelay(initial=1e9), "retry_delay.initial"),
        (lambda: RetryDelay(factor=1e9), "retry_delay.factor"),
        (lambda: RetryDelay(max=1e9), "retry_delay.max"),
        (lambda: FailedPolicy(remove_min_age=1e17), "failed.remove_min_age"),
        (lambda: FailedPolicy(max_items=10**10), "failed.max_items"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_with_its_name_and_the_least(make: Any, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Policy(requeue_limit=0, max_payload=1, busy_expiry=0.001, id_window=1.0),
        lambda: Policy(durability_replicas=1),
        lambda: Policy(durability_replicas=99),
        lambda: Policy(requeue_limit=1_000_000, claim_wait_timeout=86_400.0, max_payload=2**29),
        lambda: RetryDelay(factor=1, jitter=1),
        lambda: RetryDelay(factor=1000),
        lambda: FailedPolicy(max_items=1),
        lambda: FailedPolicy(requeue_min_age=1.0, requeue_max_given_up_count=1),
        lambda: FailedPolicy(remove_min_age=1.0, remove_min_given_up_count=0),
    ],
)
def test_the_least_and_most_values_are_accepted(make: Any) -> None:
    make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Policy(requeue_limit=1_000_001),
        lambda: Policy(durability_replicas=0),
        lambda: Policy(durability_replicas=100),
        lambda: Policy(claim_wait_timeout=86_400.1),
        lambda: RetryDelay(factor=0.9),
        lambda: RetryDelay(factor=1000.1),
        lambda: FailedPolicy(max_items=0),
        lambda: FailedPolicy(requeue_min_age=1.0, requeue_max_given_up_count=0),
        lambda: FailedPolicy(remove_min_age=1.0, remove_min_given_up_count=-1),
    ],
)
def test_values_beyond_the_bounds_are_refused(make: Any) -> None:
    with pytest.raises(ValueError, match="is"):
        make()


def test_either_lets_a_count_stand_alone() -> None:
    policy = Policy(failed=FailedPolicy(remove_min_given_up_count=3, remove_match=Match.EITHER))
    assert Policy.from_fields(policy.to_fields()) == policy


def test_durations_may_be_timedeltas_and_read_as_seconds() -> None:
    policy = Policy(
        busy_expiry=timedelta(minutes=2),
        claim_wait_timeout=timedelta(seconds=5),
        retry_delay=RetryDelay(initial=timedelta(seconds=1), max=timedelta(hours=1)),
        failed=FailedPolicy(remove_min_age=timedelta(days=30)),
    )
    assert (policy.busy_expiry, policy.claim_wait_timeout) == (120.0, 5.0)
    assert (policy.retry_delay.initial, policy.retry_delay.max) == (1.0, 3600.0)
    assert policy.failed.remove_min_age == 30 * 86_400
    assert replace(policy, requeue_limit=1).busy_expiry == 120.0
    assert hash(policy) == hash(replace(policy))


def test_a_choice_may_be_text_and_reads_as_its_member() -> None:
    failed = FailedPolicy(remove_min_given_up_count=3, remove_match="either")
    policy = Policy(on_expiry="drop", durability="fsynced", failed=failed)
    assert (policy.on_expiry, policy.durability) == (OnExpiry.DROP, Durability.FSYNCED)
    assert Policy.from_fields(policy.to_fields()) == policy
    with pytest.raises(ValueError, match=r"^on_expiry is 'discard'; give one of: requeue, drop, fail$"):
        Policy(on_expiry="discard")
    with pytest.raises(ValueError, match=r"^failed.remove_match is 'any'; give one of: both, either$"):
        FailedPolicy(remove_match="any")


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("suspended", "no", "True or False"),
        ("durable_done", 1, "True or False"),
        ("appendfsync_always", "yes", "True or False"),
        ("failed", None, "a FailedPolicy"),
        ("retry_delay", 5.0, r"a RetryDelay, such as RetryDelay\(initial=5\)"),
    ],
)
def test_a_field_of_another_type_is_refused_by_name(name: str, value: Any, wanted: str) -> None:
    with pytest.raises(TypeError, match=f"^{name} is {value!r}; give {wanted}$"):
        Policy(**{name: value})


def test_a_policy_cannot_be_changed() -> None:
    policy = Policy()
    with pytest.raises(AttributeError):
        policy.busy_expiry = 7  # type: ignore[misc]  # what is tested
    assert policy.busy_expiry == 30


@pytest.mark.parametrize("name", ["requeue_limit", "on_expiry"])
def test_a_huge_value_of_another_client_is_refused_in_a_short_message(name: str) -> None:
    with pytest.raises(ValueError, match="xxx") as refused:
        Policy.from_fields({name: "x" * 1_000_000})
    assert len(str(refused.value)) < 300


READING = re.compile(r"'HM?GET', (?:q\.config|base \.\. 'config'),((?:\s*'\w+',?)+)")
"""A script's read of fields of the config hash."""


def test_the_scripts_read_fields_that_a_policy_has() -> None:
    scripts = {path.name: path.read_text() for path in sorted(SCRIPTS.rglob("*.lua"))}
    keys = {
        (name, key)
        for name, text in scripts.items()
        for read in READING.findall(text)
        for key in re.findall(r"\w+", read)
    }
    known = {field.key for field in POLICY_FIELDS.values()} | {"owner", "pauses"}
    assert len({key for _, key in keys}) > 12
    assert sorted((name, key) for name, key in keys if key not in known) == []
