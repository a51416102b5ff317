"""Condition NoisyNeighbour: clients that take many slots while others wait."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from claimq.limits import Neighbour
from claimq.waiting.texts import instant_text
from claimq_control.decide.conditions import View, all_conditions
from claimq_control.decide.conditions.condition import Condition
from claimq_control.decide.observed import Observed
from testkit.kubernetes.kubernetes_objects import snapshot

Look = Callable[..., Observed]
ACME = (Neighbour("acme", 1.0, 1.0, 2, 42.0),)


def condition_of(look: Observed) -> Condition | None:
    return next((one for one in all_conditions(View(look, None, 0)) if one.type == "NoisyNeighbour"), None)


def test_it_names_the_client_and_the_commands(observed: Look) -> None:
    condition = condition_of(observed(seen=snapshot(main=2, busy=4, neighbours=ACME)))
    assert condition is not None
    assert (condition.status, condition.reason) == ("True", "ClientTakesSlots")
    assert condition.message.startswith(
        "client acme has 100% of the slots and 100% of the time, while 2 others wait"
    )
    assert "claimq -n media limits thumbs set each-client:per=client,busy=2" in condition.message


@pytest.mark.parametrize(("since", "stays"), [(941.0, True), (940.0, False), (1001.0, False)])
def test_it_stays_for_a_minute_so_that_the_status_is_not_written_each_second(
    observed: Look, since: float, stays: bool
) -> None:
    before = {
        "type": "NoisyNeighbour",
        "status": "True",
        "reason": "ClientTakesSlots",
        "message": "client acme",
        "lastTransitionTime": instant_text(since),
    }
    look = observed(seen=snapshot(main=2, busy=4, now=1000.0))
    condition = condition_of(replace(look, resource=replace(look.resource, status={"conditions": [before]})))
    assert (condition is not None and condition.message == "client acme") is stays


def test_a_queue_without_such_clients_has_no_such_condition(observed: Look) -> None:
    assert condition_of(observed(seen=snapshot(main=2, busy=4))) is None
    assert condition_of(observed(unknown=True)) is None
