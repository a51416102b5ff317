"""`claimq policy`: what it shows, what it changes, and what it says about a queue that the operator owns."""

import pytest

import claimq as library
from claimq.internals.operations import internals
from claimq.internals.owner import Owner
from claimq.policy import POLICY_FIELDS
from claimq_admin.changes.policy_fields import fields_of
from testkit.plugin import Claimq, QueueDo
from testkit.servers.server import Server


@pytest.fixture
def q(on: Claimq) -> Claimq:
    """The command, with a queue q on its server."""
    on("enqueue", "q", "a")
    return on


def test_it_shows_every_field_of_the_policy(q: Claimq) -> None:
    shown = q("policy", "q", "-o", "json").json
    assert (shown["queue"], shown["owner"], shown["changed"]) == ("q", None, [])
    assert shown["policy"] == fields_of(library.Policy())
    lines = q("policy", "q").out.splitlines()[2:]
    assert [line.split()[0] for line in lines] == list(POLICY_FIELDS)
    assert [line.split()[1] for line in lines[:3]] == ["5", "1,000", "30s"]


def test_it_changes_the_named_fields_and_no_others(q: Claimq, queue_do: QueueDo) -> None:
    queue_do(lambda queue: queue.update_policy(requeue_limit=9, failed_max_items=7))
    changes = [
        "busy_expiry=2m",
        "max_payload=2Mi",
        "failed_max_items=none",
        "on_expiry=fail",
        "durable_done=true",
        "limits=api:rate=100/s,burst=200;licences:busy=20",
    ]
    answer = q("policy", "q", *changes, "retry_delay_factor=1.5", "claim_wait_timeout=none", "-o", "json")
    assert answer.json["changed"] == sorted(
        [*(one.partition("=")[0] for one in changes), "claim_wait_timeout", "retry_delay_factor"]
    )
    now = queue_do(lambda queue: queue.policy())
    assert (now.requeue_limit, now.busy_expiry, now.max_payload) == (9, 120.0, 2 * 1024 * 1024)
    assert (now.failed.max_items, now.claim_wait_timeout, now.retry_delay.factor) == (None, None, 1.5)
    assert (now.on_expiry, now.durable_done) == (library.OnExpiry.FAIL, True)


def test_raising_the_largest_payload_says_what_large_items_cost(q: Claimq) -> None:
    cost = "an item of 8 MiB blocks the server for up to 80 ms"
    assert cost in q("policy", "q", "max_payload=8Mi").err
    assert cost not in q("policy", "q", "requeue_limit=3").err
    assert cost not in q("policy", "q", "max_payload=1Mi").err


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("requeue_limit", '"requeue_limit" has no value; write requeue_limit=VALUE'),
        ("size=3", 'the policy has no field "size"; write one of requeue_limit, max_postponed'),
        ("requeueLimit=3", 'the policy has no field "requeueLimit"; did you mean requeue_limit?\n'),
        ("retry_delay=5s", "did you mean retry_delay_initial or retry_delay_factor or retry_delay_max?\n"),
        ("requeue_limit=many", 'requeue_limit: "many" is not valid: write a whole number'),
        ("requeue_limit=none", "write a whole number"),
        ("limits=api:rate=0/s", "rate is '0/s'; give a rate such as 100/s"),
        ("limits=api:rate=1/s;api:busy=2", "has the name api twice"),
        ("busy_expiry=5", '"5" has no unit; write "5s"'),
        ("on_expiry=forget", "write one of requeue, drop, fail"),
        ("durable_done=1", "write true or false"),
        ("requeue_limit=-1", "requeue_limit"),
        ("busy_expiry=10000h", "busy_expiry"),
    ],
)
def test_a_wrong_change_is_refused_with_the_fix(
    q: Claimq, queue_do: QueueDo, change: str, words: str
) -> None:
    answer = q("policy", "q", "failed_max_items=3", change)
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
    assert words in answer.err
    assert queue_do(lambda queue: queue.policy()).failed.max_items is None
    assert queue_do(lambda queue: queue.audit_log()) == []


def test_a_field_given_twice_is_refused(q: Claimq) -> None:
    assert "requeue_limit is given twice" in q("policy", "q", "requeue_limit=1", "requeue_limit=2").err


def test_commands_that_people_run_on_an_owned_queue_name_its_owner(q: Claimq, queue_do: QueueDo) -> None:
    """They do what they are asked: the record binds operators (docs/decisions/tenants.md)."""
    assert q("pause", "q").err == ""
    q("resume", "q")
    queue_do(lambda queue: internals(queue).own(Owner("cluster-a", "media", "thumbs", "uid-1")))
    paused = q("pause", "q")
    assert paused.code == 0
    assert paused.out.startswith("q: paused by ")
    assert "q, which the ReliableQueue media/thumbs owns, stays paused until `claimq resume q`" in paused.err
    for command, what in (
        (["flush", "q"], "every item"),
        (["delete", "q"], "the policy, the counters and every item"),
        (["failed", "remove", "q", "--all"], "every failed item"),
    ):
        asked = q(*command)
        assert asked.code == 2
        assert f"removes {what} of q, which the ReliableQueue media/thumbs owns, permanently" in asked.err
    assert q("flush", "q", "--yes").code == 0
    assert queue_do(lambda queue: queue.length()) == 0


def test_an_owner_that_cannot_be_read_leaves_the_policy_as_it_was(q: Claimq, queue_do: QueueDo) -> None:
    queue_do(lambda queue: queue._connection.command("HSET", queue._keys.config, "owner", "garbage"))
    answer = q("policy", "q", "requeue_limit=1")
    assert (answer.code, answer.out) == (4, "")
    assert "HDEL cq:{q}:config owner" in answer.err
    assert queue_do(lambda queue: queue.policy()).requeue_limit == 5


def test_a_change_warns_that_the_operator_may_revert_it(q: Claimq, queue_do: QueueDo) -> None:
    queue_do(lambda queue: internals(queue).own(Owner("cluster-a", "media", "thumbs", "uid-1")))
    assert q("policy", "q").err == ""
    answer = q("policy", "q", "requeue_limit=1", "-o", "json")
    assert (answer.code, answer.json["owner"]) == (0, "cluster-a/media/thumbs/uid-1/1")
    assert "the operator sets the policy of q from the ReliableQueue media/thumbs" in answer.err


def test_a_change_of_the_policy_may_come_before_the_first_item(on: Claimq, valkey: Server) -> None:
    on("enqueue", "thumbnails", "a")
    answer = on("policy", "thumbnail", "max_payload=2Mi", "-o", "json")
    assert (answer.code, answer.json["created"], answer.json["policy"]["max_payload"]) == (
        0,
        True,
        2 * 1024 * 1024,
    )
    assert "thumbnail is a new queue; did you mean thumbnails?" in answer.err
    assert on("queues", "-o", "name").out == "thumbnail\nthumbnails\n"
    again = on("policy", "thumbnail", "max_payload=3Mi", "-o", "json")
    assert (again.json["created"], "new queue" in again.err) == (False, False)
    valkey.call("LPUSH", "old", "x" * 2_500_000)
    assert on("import", "thumbnail", "--from", "list:old").code == 0


def test_a_policy_of_no_queue_is_not_shown(on: Claimq) -> None:
    assert on("policy", "q").code == 1
