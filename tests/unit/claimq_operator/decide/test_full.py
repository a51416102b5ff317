"""Condition Full: a queue near the bound on what waits."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from claimq.model import State
from claimq_control.decide.conditions import View, all_conditions
from claimq_control.decide.conditions.condition import Condition
from claimq_control.decide.observed import Observed
from testkit.kubernetes.kubernetes_objects import snapshot

Look = Callable[..., Observed]


def types_of(look: Observed) -> dict[str, Condition]:
    return {one.type: one for one in all_conditions(View(look, None, 0))}


@pytest.mark.parametrize(
    ("waiting", "was_full", "is_full"),
    [
        (89, False, False),
        (90, False, True),
        (200, False, True),
        (89, True, True),
        (80, True, True),
        (79, True, False),
    ],
)
def test_a_queue_is_full_near_its_bound_until_a_fifth_is_free(
    observed: Look, waiting: int, was_full: bool, is_full: bool
) -> None:
    lengths = {State.MAIN: waiting - 5, State.BUSY: 500, State.DELAYED: 5, State.FAILED: 500}
    seen = replace(snapshot(), lengths=lengths)
    look = observed(seen=seen, maxWaiting={"items": 100, "perClient": {"items": 1}})
    status = {"conditions": [{"type": "Full", "status": "True"}]} if was_full else {}
    conditions = types_of(replace(look, resource=replace(look.resource, status=status)))
    assert ("Full" in conditions) == is_full
    if is_full:
        assert "(spec.maxWaiting.items: 100), so new ones are refused" in conditions["Full"].message
    assert (conditions["Ready"].reason == "MaxWaiting") == is_full
    assert "Full" not in types_of(observed(seen=seen))


@pytest.mark.parametrize(("waiting", "is_full"), [(None, False), (943_000, False), (944_000, True)])
def test_a_queue_is_full_near_its_bound_of_bytes_too(
    observed: Look, waiting: int | None, is_full: bool
) -> None:
    seen = replace(snapshot(), waiting_bytes=waiting)
    conditions = types_of(observed(seen=seen, maxWaiting={"items": 10**6, "bytes": "1Mi"}))
    assert ("Full" in conditions) == is_full
    if is_full:
        assert "about as many bytes wait as may (spec.maxWaiting.bytes: 1Mi)" in conditions["Full"].message
