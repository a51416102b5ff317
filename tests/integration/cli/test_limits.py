"""`claimq limits`: shows the limits of a queue, changes one of them, also for a time, and says what they hold back."""

import re

import pytest

import claimq as library
from claimq import Limit
from claimq.internals.operations import internals
from claimq.internals.owner import Owner
from claimq_admin.changes.local_user import local_user
from testkit.plugin import Claimq, QueueDo

API, LICENCES = Limit("api", rate="100/h", burst=5), Limit("licences", busy=3)


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture
def limited(queue_do: QueueDo) -> None:
    """`q` with two limits and three items, one of them claimed."""

    async def fill(queue: library.ReliableQueue) -> None:
        await queue.update_policy(limits=[API, LICENCES])
        for payload in "abc":
            await queue.enqueue(payload)
        await queue.claim(wait=0)

    queue_do(fill)


@pytest.mark.usefixtures("limited")
def test_limits_shows_what_each_lets_start(on: Claimq) -> None:
    rows = on("limits", "q").out.splitlines()
    assert [row.split()[:2] for row in rows[2:4]] == [
        ["api:rate=100/h,burst=5", "4"],
        ["licences:busy=3", "2"],
    ]
    document = on("limits", "q", "-o", "json").json
    assert document["limits"][1] == {
        "name": "licences",
        "startable": 2,
        "busy": 3,
        "unit": "items",
        "per": "queue",
        **dict.fromkeys(("rate", "burst", "until", "by", "reason")),
    }
    assert (document["startable"], document["waiting"], document["in_progress"]) == (2, 2, 1)


@pytest.mark.usefixtures("limited")
def test_a_limit_for_a_time_is_shown_wherever_it_holds_items_back(on: Claimq, queue_do: QueueDo) -> None:
    on("limits", "q", "set", "licences:busy=1", "--for", "1h", "--reason", "audit; of\nlicences")
    sentence = (
        rf"items wait for the limits of the queue: licences:busy=1; licences is set until \S+Z "
        rf"by {re.escape(local_user())} \(audit; of licences\)"
    )
    for shown in (on("status", "q"), on("limits", "q"), on("check", "q")):
        assert re.search(sentence, words(shown.out)), shown.out
    assert queue_do(lambda queue: queue.policy()).limits == (API, LICENCES)
    assert "set licences:busy=1 for 1h: audit; of" in words(on("audit", "q").out)
    assert "limits of the queue" not in on("limits", "q", "reset").out
    assert queue_do(lambda queue: queue.snapshot()).temporary_limits == ()


@pytest.mark.usefixtures("limited")
def test_a_limit_is_changed_and_removed_in_the_policy(on: Claimq, queue_do: QueueDo) -> None:
    on("limits", "q", "set", "api:rate=1/s")
    on("limits", "q", "remove", "licences", "--for", "10m")
    assert re.search(r"licences: off +- +\S+", on("limits", "q").out)
    on("limits", "q", "remove", "licences")
    assert queue_do(lambda queue: queue.policy()).limits == (Limit("api", rate="1/s"),)
    assert on("limits", "q", "remove", "api").out == "q has no limits\n"


@pytest.mark.usefixtures("limited")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["set", "api:rate=0/s"],
            "rate is '0/s'; give a rate such as 100/s: 1 to 1000000 items, and s, m, h or d",
        ),
        (["set", "api:rate=1/w"], "rate is '1/w'; give a rate such as 100/s"),
        (
            ["set", "api:rate=1/s;x:busy=1"],
            "limit is 'api:rate=1/s;x:busy=1'; give one, such as api:rate=10/s",
        ),
        (["set", "api"], "api has neither rate nor busy; give one of rate and busy"),
        (["set"], "write set LIMIT, remove NAME or reset, not 'set'"),
        (["reset", "api"], "write set LIMIT, remove NAME or reset, not 'reset api'"),
        (["remove", "ap"], "the queue has no limit ap; it has api, licences"),
        (
            ["set", "api:rate=1/s", "--until", "2020-01-01T00:00:00Z"],
            "until is over by the clock of the server",
        ),
        (["set", "api:rate=1/s", "--for", "soon"], "soon"),
    ],
)
def test_a_change_of_limits_without_sense_is_refused(
    on: Claimq, queue_do: QueueDo, arguments: list[str], message: str
) -> None:
    refused = on("limits", "q", *arguments)
    assert refused.code != 0
    assert message in words(refused.err)
    assert queue_do(lambda queue: queue.policy()).limits == (API, LICENCES)


@pytest.mark.usefixtures("limited")
def test_only_a_permanent_change_warns_that_the_manifest_wins(on: Claimq, queue_do: QueueDo) -> None:
    queue_do(lambda queue: internals(queue).own(Owner("c", "shop", "letters", "uid")))
    assert "reverts changes" in words(on("limits", "q", "set", "licences:busy=1").err)
    assert "reverts changes" not in words(on("limits", "q", "set", "licences:busy=2", "--for", "1h").err)


@pytest.mark.usefixtures("limited")
def test_a_policy_with_a_ninth_limit_beside_a_temporary_one_is_refused(on: Claimq) -> None:
    on("limits", "q", "set", "other:busy=9", "--for", "1h")
    refused = on("policy", "q", "limits=" + ";".join(f"l{number}:busy=1" for number in range(8)))
    assert refused.code != 0
    assert "limits has 9 limits with the temporary ones; give at most 8, or reset those" in words(refused.err)


def test_an_item_that_costs_too_much_is_refused_with_what_to_do(on: Claimq) -> None:
    assert on("enqueue", "q", "x").code == 0
    answer = on("limits", "q", "set", "tokens:rate=1/s,burst=9,unit=cost")
    assert "tokens:rate=1/s,burst=9,unit=cost" in answer.out
    assert on("enqueue", "q", "x", "--cost", "9").code == 0
    answer = on("enqueue", "q", "x", "--cost", "10")
    assert (answer.code, answer.err.count("\n")) == (4, 1)
    assert "item 0 of this call costs 10, and the limit tokens lets 9 start at once" in answer.err
    assert on("enqueue", "q", "x", "--cost", "0").code == 2
    assert on("limits", "q", "set", "slots:busy=8,unit=cost").code == 0
    assert "costs 9, and the limit slots lets 8 start at once" in on("enqueue", "q", "x", "--cost", "9").err
