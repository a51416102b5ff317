"""Each command against a real server: what it does, its JSON, its errors."""

import subprocess
import sys
from pathlib import Path

import pytest
from click import Context

import claimq as library
from claimq import NewItem
from claimq.policy import Policy
from claimq_cli.program import cli
from testkit.plugin import Claimq, QueueDo
from testkit.servers.server import Server
from testkit.waiting import PATIENCE, eventually_sync


@pytest.fixture
def two_failed(on: Claimq, queue_do: QueueDo) -> list[str]:
    """Two failed items, by their ids."""

    async def fail(queue: library.ReliableQueue) -> list[str]:
        await queue.set_policy(Policy(requeue_limit=0))
        # The server sorts items that failed in the same millisecond by their ids.
        done = await queue.enqueue_many([NewItem(name, id=name) for name in ("one", "two")])
        await queue.fail(await queue.claim(2), "it is broken")
        return list(done.ids)

    ids: list[str] = queue_do(fail)
    return ids


def test_arguments_become_items_in_their_order(on: Claimq) -> None:
    answer = on("enqueue", "q", "a", "b", '{"c": 1}', "-o", "json")
    assert answer.code == 0
    found = answer.json
    assert (found["queue"], found["length"], found["duplicates"], len(found["ids"])) == ("q", 3, [], 3)
    items = [row["item"] for row in on("items", "q", "main", "--output", "json").json["items"]]
    assert [one["id"] for one in items] == found["ids"]
    assert [one.get("text", one.get("payload")) for one in items] == ["a", "b", {"c": 1}]


def test_a_payload_may_be_any_bytes(on: Claimq, tmp_path: Path) -> None:
    (tmp_path / "payload").write_bytes(b"\xff\x00\n")
    assert (
        on("enqueue", "q", "--file", str(tmp_path / "payload")).out
        == "q: 1 item enqueued, 1 in main (a new queue)\n"
    )
    assert on("items", "q", "main", "-o", "json").json["items"][0]["item"]["payload_base64"] == "/wAK"


def test_an_argument_that_is_not_utf8_stays_as_it_is(on: Claimq) -> None:
    on("enqueue", "q", "caf\udce9")
    assert on("items", "q", "main", "-o", "json").json["items"][0]["item"]["payload_base64"] == "Y2Fm6Q=="


def test_each_line_is_an_item_and_empty_lines_are_left_out(on: Claimq, tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"one\n\ntwo\r\nthree")
    assert (
        on("enqueue", "q", "--lines", str(tmp_path / "lines")).out
        == "q: 3 items enqueued, 3 in main (a new queue)\n"
    )
    (tmp_path / "names").write_bytes(b"with\nnewline\0other\0")
    on("enqueue", "q", "--lines", str(tmp_path / "names"), "--null")
    texts = [one["item"]["text"] for one in on("items", "q", "main", "-o", "json").json["items"]]
    assert texts == ["one", "two", "three", "with\nnewline", "other"]


def test_lines_of_stdin_are_enqueued_as_they_come(on: Claimq, valkey: Server) -> None:
    command = [sys.executable, "-m", "claimq_cli", "enqueue", "q", "--lines", "-", "--redis", valkey.url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as slow:
        assert slow.stdin is not None
        slow.stdin.write("first\nsec")
        slow.stdin.flush()
        eventually_sync(lambda: '"main": 1' in on("status", "q", "-o", "json").out)
        out, _ = slow.communicate("ond\n", timeout=PATIENCE)
    assert out == "q: 2 items enqueued, 2 in main (a new queue)\n"
    assert [one["item"]["text"] for one in on("items", "q", "main", "-o", "json").json["items"]] == [
        "first",
        "second",
    ]


def test_the_same_id_is_not_queued_twice(on: Claimq) -> None:
    on("enqueue", "q", "a", "--id", "mine")
    answer = on("enqueue", "q", "a", "--id", "mine")
    assert (
        answer.out
        == "q: 0 items enqueued, 1 item known already, 1 in main (the queue remembers ids for its id_window)\n"
    )
    assert on("enqueue", "q", "a", "--id", "mine", "-o", "json").json["duplicates"] == ["mine"]


def test_client_and_delay_reach_the_item(on: Claimq) -> None:
    answer = on("enqueue", "q", "a", "--client", "acme", "--delay", "1h", "-o", "json").json
    (found,) = on("items", "q", "delayed", "-o", "json").json["items"]
    assert found["item"]["client"] == "acme"
    assert 3590 < found["due_at"] - found["item"]["enqueued_at"] <= 3600
    # Its time is that of the server before the call.
    assert found["due_at"] - PATIENCE < answer["due_at"] < found["due_at"] + 0.001
    on("enqueue", "q", "b", "--at", "2033-05-18T03:33:20Z")
    (_, later) = on("items", "q", "delayed", "-o", "json").json["items"]
    assert later["due_at"] == 2_000_000_000
    on("enqueue", "q", "c", "--at", "2000000001.5")
    assert on("items", "q", "delayed", "-o", "json").json["items"][2]["due_at"] == 2_000_000_001.5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["q"], "give items as arguments, or --lines FILE, or --file FILE"),
        (["q", "a", "--file", "x"], "exactly one of them"),
        (["q", "a", "b", "--id", "i"], "--id is for one item"),
        (["q", "a", "--delay", "1s", "--at", "5"], "exclude each other"),
        (["q", "a", "--delay", "5"], '"5" has no unit; write "5s"'),
        (["q", "--file", "nothing-there"], "cannot be read (No such file or directory)"),
        (["q", "a", "--at", "-1"], "at is -1.0; give 0 to"),
        (
            ["q", "a", "--at", "tomorrow"],
            '"tomorrow" is not an instant; write ISO 8601 (2030-01-31T09:00:00Z;',
        ),
        (["q", "a", "--from-line", "3"], "need --lines"),
        (["bad{name}", "a"], "bad{name}"),
        (["q", "a", "--client", "two words"], "two words"),
        (["q", "a", "--colour"], "No such option"),
    ],
)
def test_a_wrong_command_line_is_one_line_that_says_what_to_do(
    on: Claimq, arguments: list[str], words: str
) -> None:
    answer = on("enqueue", *arguments)
    assert answer.code == 2
    assert answer.err.startswith("claimq: ")
    assert answer.err.count("\n") == 1
    assert words in answer.err
    assert answer.out == ""


def test_too_large_a_payload_is_refused_with_what_to_do(on: Claimq, queue_do: QueueDo) -> None:
    queue_do(lambda queue: queue.set_policy(Policy(max_payload=3)))
    answer = on("enqueue", "q", "abc", "abcd")
    assert (answer.code, answer.err.count("\n")) == (4, 1)
    assert "payload 1 of this call has 4 bytes and the queue takes at most 3" in answer.err


def test_a_key_of_another_type_in_the_way_is_refused(on: Claimq, valkey: Server) -> None:
    valkey.call("SET", "cq:{q}:main", "x")
    answer = on("status", "q")
    assert (answer.code, answer.err.count("\n")) == (4, 1)


def test_status_shows_lengths_ages_and_workers(on: Claimq, queue_do: QueueDo) -> None:
    on("enqueue", "q", "a", "b", "c")
    queue_do(lambda queue: queue.claim(1))
    found = on("status", "q", "-o", "json").json
    assert set(found) == {
        "queue",
        "now",
        "paused",
        "pauses",
        "attention",
        "neighbours",
        "lengths",
        "waiting",
        "ages",
        "next_due_in",
        "counters",
        "workers",
    }
    assert found["lengths"] == {"main": 2, "busy": 1, "delayed": 0, "failed": 0}
    assert found["waiting"] == {"not_due": 0, "paused": 0, "key_busy": 0, "limit": 0, "ready": 2}
    assert set(found["ages"]) == set(found["lengths"])
    assert [(one["worker"], one["busy"]) for one in found["workers"]] == [("w", 1)]
    row = on("status", "q").out.splitlines()[2].split()
    assert row[:5] == ["q", "2", "1", "0", "0"]


def test_status_counts_the_items_that_wait_for_their_keys(on: Claimq, queue_do: QueueDo) -> None:
    on("enqueue", "q", "a", "b", "c", "--key", "k")
    queue_do(lambda queue: queue.claim(3))
    assert on("status", "q", "-o", "json").json["waiting"]["key_busy"] == 2
    assert "q: 2 items wait for their keys" in on("status", "q").out
    assert [row.split()[3] for row in on("items", "q", "delayed").out.splitlines()[2:]] == ["-", "-"]


def test_status_counts_live_workers_and_workers_names_pods(
    on: Claimq, queue_do: QueueDo, valkey: Server
) -> None:
    on("enqueue", "q", "a", "b")
    queue_do(lambda queue: queue.claim(1))
    now = round(queue_do(lambda queue: queue.snapshot()).now * 1000)
    pod = "q-worker-6c9d-x7k2p.421d97e8-7bdd-4a36-a14c-50d27778a6a2.1795832074464"
    valkey.call("ZADD", "cq:{q}:workers", now, "waits", now - 3_500_000, "w", now - 60_000, pod)
    found = on("status", "q", "-o", "json").json
    assert sorted(one["worker"] for one in found["workers"]) == ["w", "waits"]
    listed = on("workers", "q", "-o", "json").json["workers"]
    assert {one["worker"]: one["is_live"] for one in listed} == {"w": True, "waits": True, pod: False}
    assert {one["pod"] for one in listed} == {None, "q-worker-6c9d-x7k2p"}
    rows = [row.split() for row in on("workers", "q").out.splitlines()[2:]]
    assert {row[0]: (row[1], row[-1]) for row in rows} == {
        "w": ("program", "live"),
        "waits": ("program", "live"),
        pod: ("pod", "ended"),
    }


def test_status_without_a_name_needs_a_queue_that_is_known(on: Claimq) -> None:
    answer = on("status")
    assert answer.code == 2
    assert "this server has no list of queues; give the name of a queue" in answer.err


def test_items_of_each_state_have_what_belongs_to_it(on: Claimq, queue_do: QueueDo) -> None:
    on("enqueue", "q", "a", "b")
    queue_do(lambda queue: queue.claim(1))
    (busy,) = on("items", "q", "busy", "-o", "json").json["items"]
    assert (busy["worker"], busy["state"], busy["item"]["text"]) == ("w", "busy", "a")
    assert busy["lease_until"] > busy["claimed_at"]
    assert [one["item"]["text"] for one in on("items", "q", "main", "-o", "json").json["items"]] == ["b"]
    assert on("items", "q", "failed").out == "q: no items in failed\n"
    assert on("items", "q", "lost").code == 2


def test_item_show_returns_where_an_item_is(on: Claimq, queue_do: QueueDo) -> None:
    on("enqueue", "q", "a", "--id", "mine")
    assert on("item", "show", "q", "mine", "-o", "json").json["state"] == "main"
    assert "waits:       no worker has asked for items lately" in on("item", "show", "q", "mine").out
    assert (
        "before it:   0 of its client and priority, 0 of all in main" in on("item", "show", "q", "mine").out
    )
    queue_do(lambda queue: queue.claim(1))
    found = on("item", "show", "q", "mine", "-o", "json").json
    assert (found["state"], found["worker"]) == ("busy", "w")
    assert "held by:     w" in on("item", "show", "q", "mine").out
    answer = on("item", "show", "q", "other")
    assert (answer.code, answer.err) == (
        1,
        "claimq: q has no item other: it is done, was removed, or never existed\n",
    )


def test_failed_items_are_listed_and_shown_with_their_reason(on: Claimq, two_failed: list[str]) -> None:
    found = on("items", "q", "failed", "-o", "json").json
    assert found["length"] == 2
    assert [one["item"]["id"] for one in found["items"]] == two_failed
    assert {one["item"]["last_error"] for one in found["items"]} == {"it is broken"}
    assert [
        one["item"]["id"] for one in on("items", "q", "failed", "--offset", "1", "-o", "json").json["items"]
    ] == two_failed[1:]
    shown = on("item", "show", "q", two_failed[0])
    assert "last error:  it is broken" in shown.out
    assert on("item", "show", "q", two_failed[0], "-o", "json").json["item"]["given_up_count"] == 1


def test_failed_items_go_back_by_id_and_what_is_missing_is_named(on: Claimq, two_failed: list[str]) -> None:
    answer = on("failed", "requeue", "q", two_failed[0], "other", "-o", "json")
    assert (answer.code, answer.json) == (
        1,
        {"queue": "q", "requeued": 1, "missing": ["other"], "problems": []},
    )
    assert answer.err == "claimq: q has no failed item other; see `claimq items q failed`\n"
    assert on("status", "q", "-o", "json").json["lengths"] == {
        "main": 1,
        "busy": 0,
        "delayed": 0,
        "failed": 1,
    }


def test_all_failed_items_go_back_as_far_as_the_filters_let_them(on: Claimq, two_failed: list[str]) -> None:
    assert on("failed", "requeue", "q", "--all", "--min-age", "1h").out == "q: 0 items requeued\n"
    assert on("failed", "requeue", "q", "--all", "--max-given-up-count", "1").out == "q: 2 items requeued\n"


def test_sending_back_stops_at_its_limit(on: Claimq, two_failed: list[str]) -> None:
    assert on("failed", "requeue", "q", "--all", "--limit", "1").out == "q: 1 item requeued\n"
    left = on("items", "q", "failed", "-o", "json").json["items"]
    assert [one["item"]["id"] for one in left] == two_failed[1:]
    assert on("failed", "requeue", "q", "--limit", "1", two_failed[1]).code == 2


def test_failed_items_are_removed_by_id_or_by_filter(on: Claimq, two_failed: list[str]) -> None:
    assert on("failed", "remove", "q", two_failed[0], "-o", "json").json == {
        "queue": "q",
        "removed": 1,
        "missing": [],
        "problems": [],
    }
    asked = on("failed", "remove", "q", "--all")
    assert (asked.code, asked.err) == (
        2,
        "claimq: this removes every failed item of q permanently; confirm it with --yes\n",
    )
    assert (
        on("failed", "remove", "q", "--all", "--yes", "--min-given-up-count", "2").out
        == "q: 0 items removed\n"
    )
    assert on("failed", "remove", "q", "--all", "--yes").out == "q: 1 item removed\n"
    assert on("items", "q", "failed").out == "q: no items in failed\n"


@pytest.mark.parametrize("verb", ["requeue", "remove"])
def test_failed_items_are_named_or_all_never_neither_never_both(on: Claimq, verb: str) -> None:
    for arguments in ((), ("some", "--all")):
        answer = on("failed", verb, "q", *arguments)
        assert (answer.code, answer.err) == (2, "claimq: name the items by their ids, or give --all\n")
    filtered = on("failed", verb, "q", "some", "--min-age", "1s")
    assert (filtered.code, filtered.err) == (
        2,
        "claimq: the filters, --dry-run and --rate need --all; omit them, or the ids\n",
    )


def test_what_a_dead_worker_held_is_given_back(on: Claimq, queue_do: QueueDo) -> None:
    on("enqueue", "q", "a", "b")
    queue_do(lambda queue: queue.claim(2))
    assert on("workers", "q", "-o", "json").json["workers"][0]["busy"] == 2
    found = on("release", "q", "w", "--error", "its power failed", "-o", "json").json
    assert found == {
        "queue": "q", "worker": "w", "requeued": 2, "delayed": 0, "failed": 0, "unclaimed": 0, "total": 2,
    }  # fmt: skip
    assert (
        on("items", "q", "main", "--limit", "1", "-o", "json").json["items"][0]["item"]["last_error"]
        == "its power failed"
    )
    again = on("release", "q", "w")
    assert (again.code, again.out) == (0, "q: 0 items given back\n")
    assert "w holds no claim; `claimq workers q` lists the workers" in again.err


def test_an_interruption_is_not_counted(on: Claimq, queue_do: QueueDo) -> None:
    on("enqueue", "q", "a")
    queue_do(lambda queue: queue.claim(1))
    assert on("release", "q", "w", "--interrupted").out == "q: 1 item given back (1 unclaimed)\n"
    item = on("items", "q", "main", "-o", "json").json["items"][0]["item"]
    assert (item["crash_count"], item["interrupted_count"]) == (0, 1)


def test_a_server_that_is_away_is_an_error_within_seconds(claimq: Claimq) -> None:
    answer = claimq("status", "q", "--redis", "redis://127.0.0.1:1/0")
    assert (answer.code, answer.err.count("\n")) == (3, 1)
    assert "start the server and try again, or correct --redis or CLAIMQ_REDIS_URL" in answer.err


def test_without_any_server_the_error_names_the_ways_to_give_one(claimq: Claimq) -> None:
    answer = claimq("status", "q")
    assert answer.code == 2
    assert answer.err == (
        "claimq: no server is configured: give --redis URL or --namespace NAMESPACE, set CLAIMQ_REDIS_URL, or start "
        "`claimq up -f FILE` first\n"
    )


def test_a_password_comes_from_a_file(
    on: Claimq, valkey: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on("enqueue", "q", "a")
    valkey.call("CONFIG", "SET", "requirepass", "geheim")
    try:
        refused = on("status", "q")
        assert (refused.code, refused.err.count("\n")) == (4, 1)
        (tmp_path / "password").write_text("geheim\n")
        monkeypatch.setenv("CLAIMQ_REDIS_PASSWORD_FILE", str(tmp_path / "password"))
        assert on("status", "q").code == 0
        monkeypatch.setenv("CLAIMQ_REDIS_PASSWORD_FILE", str(tmp_path / "nothing"))
        assert "CLAIMQ_REDIS_PASSWORD_FILE cannot be read" in on("status", "q").err
    finally:
        valkey.kill9()


@pytest.mark.parametrize("arguments", [[], ["failed"]], ids=["claimq", "failed"])
def test_a_group_alone_prints_its_whole_help(claimq: Claimq, arguments: list[str]) -> None:
    answer = claimq(*arguments)
    assert (answer.code, answer.err) == (2, "")
    assert answer.out == claimq(*arguments, "--help").out
    assert answer.out.count("\n") > 5


def test_the_help_lists_every_command_with_a_whole_sentence(claimq: Claimq) -> None:
    _, listed = claimq("--help").out.split("Commands:\n")
    lines = listed.rstrip().splitlines()
    assert [line.split()[0] for line in lines] == cli.list_commands(Context(cli))
    assert [line for line in lines if not line.endswith(".") or line.endswith("...")] == []
    for line in lines:
        assert claimq(line.split()[0], "--help").code == 0
