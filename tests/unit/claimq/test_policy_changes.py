"""Changes of some fields of a policy: what they set in the queue's config, and nothing else."""

from dataclasses import fields
from typing import Any

import pytest

from claimq.policy import (
    FailedPolicy,
    Match,
    MaxWaiting,
    Policy,
    PolicyChanges,
    PolicyFields,
    RetryDelay,
    changed_fields,
)
from claimq.waiting.fairness import Fairness


def test_every_field_of_the_policy_can_be_changed_by_itself() -> None:
    groups: dict[str, Any] = {
        "retry_delay": RetryDelay,
        "max_waiting": MaxWaiting,
        "fairness": Fairness,
        "failed": FailedPolicy,
    }
    names = {field.name for field in fields(Policy)}
    assert set(PolicyFields.__annotations__) == names
    inner = {f"{group}_{field.name}" for group, kind in groups.items() for field in fields(kind)}
    assert set(PolicyChanges.__annotations__) == names | inner


def test_each_field_of_the_config_is_set_by_one_field_and_by_its_group() -> None:
    default = Policy()
    whole, count = default.to_fields(), 0
    for name in PolicyFields.__annotations__:
        changes: Any = {name: getattr(default, name)}
        assert changed_fields(changes).items() <= whole.items(), name
        count += len(changed_fields(changes))
    assert count == len(whole)
    for group in ("retry_delay", "failed"):
        value = getattr(default, group)
        single: Any = {f"{group}_{field.name}": getattr(value, field.name) for field in fields(value)}
        together: Any = {group: value}
        assert changed_fields(single) == changed_fields(together)
        for name, one in single.items():
            alone: Any = {name: one}
            assert len(changed_fields(alone)) == 1, name


def test_a_change_sets_its_own_field_only() -> None:
    assert changed_fields({"claim_wait_timeout": 2.5}) == {"claim_wait_timeout_ms": "2500"}
    assert changed_fields({"failed_max_items": None, "requeue_limit": 1}) == {
        "failed_max_items": "",
        "requeue_limit": "1",
    }
    assert changed_fields({"failed_remove_min_given_up_count": 3}) == {
        "failed_remove_min_given_up_count": "3"
    }
    assert changed_fields({"failed_remove_match": Match.EITHER}) == {"failed_remove_match": "either"}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"requeue_limit": -1}, "requeue_limit is -1"),
        ({"failed_max_items": 0}, "failed.max_items is 0"),
        ({"retry_delay_jitter": 2}, "retry_delay.jitter is 2"),
        ({"failed": FailedPolicy(), "failed_max_items": 3}, "failed and failed_max_items are both given"),
        ({"failed_remove_min_age": None, "failed_remove_min_given_up_count": 3}, "does nothing without"),
    ],
)
def test_a_change_that_makes_no_sense_is_refused_by_its_name(changes: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        changed_fields(changes)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, "at least one field"),
        ({"speed": 1, "paused": True, "requeue_limit": 1}, "the policy has no field paused"),
        ({"requeue_limt": 1}, r"the policy has no field requeue_limt; did you mean requeue_limit\?"),
        ({"retry_delay": 5}, r"retry_delay is 5; give a RetryDelay, such as RetryDelay\(initial=5\)"),
    ],
)
def test_a_change_of_no_field_or_of_a_wrong_type_is_a_type_error(changes: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        changed_fields(changes)
