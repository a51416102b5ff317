"""`claimq check`: one line and an exit code for a monitoring system."""

import re
from typing import Any

import pytest

from claimq.policy import Policy
from testkit.plugin import Claimq, QueueDo
from testkit.servers.server import Server

LINE = re.compile(r"(OK|WARNING|CRITICAL|UNKNOWN) - ([^|\n]+)( \| ([^|\n]+))?\n")


@pytest.fixture
def three_items(on: Claimq) -> None:
    """A queue `q` with three items in main."""
    on("enqueue", "q", "a", "b", "c")


def test_without_thresholds_a_queue_is_ok_with_its_numbers(on: Claimq, three_items: None) -> None:
    answer = on("check", "q")
    assert (answer.code, answer.err) == (0, "")
    line = LINE.fullmatch(answer.out)
    assert line is not None
    assert line[1] == "OK"
    assert re.fullmatch(r"q: 3 items in main, 0 failed, oldest [\d.]+ m?s", line[2])
    assert re.fullmatch(r"main=3;;;0 busy=0;;;0 delayed=0;;;0 failed=0;;;0 age=[\d.]+s;;;0", line[4])


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--warn-length", "3"], 0, "OK - q: 3 items in main, 0 failed"),
        (["--warn-length", "2"], 1, "WARNING - q: 3 items in main (above 2), 0 failed"),
        (["--warn-length", "1", "--crit-length", "2"], 2, "CRITICAL - q: 3 items in main (above 2)"),
        (["--warn-length", "2", "--crit-length", "9"], 1, "main=3;2;9;0 "),
        (["--crit-length", "2"], 2, "main=3;;2;0 "),
        (["--warn-age", "0s"], 1, "(above 0 s)"),
        (["--crit-age", "1h"], 0, " age="),
        (["--warn-failed", "0", "--crit-failed", "5"], 0, "failed=0;0;5;0"),
    ],
)
def test_a_value_above_a_threshold_is_reported(
    on: Claimq, three_items: None, options: list[str], code: int, words: str
) -> None:
    answer = on("check", "q", *options)
    assert answer.code == code
    assert words in answer.out
    assert LINE.fullmatch(answer.out)


def test_failed_items_above_the_threshold_are_critical(on: Claimq, queue_do: QueueDo) -> None:
    on("enqueue", "q", "a")

    async def fail(queue: Any) -> None:
        await queue.set_policy(Policy(requeue_limit=0))
        await queue.fail(await queue.claim(1), "no")

    queue_do(fail)
    answer = on("check", "q", "--crit-failed", "0", "--warn-age", "1s")
    assert answer.code == 2
    assert answer.out == (
        "CRITICAL - q: 0 items in main, 1 failed (above 0) "
        "| main=0;;;0 busy=0;;;0 delayed=0;;;0 failed=1;;0;0 age=0s;1;;0\n"
    )


def test_memory_is_a_share_of_the_limit_of_the_server(on: Claimq, three_items: None, valkey: Server) -> None:
    unlimited = on("check", "q", "--warn-memory", "80")
    assert unlimited.code == 3
    assert unlimited.out.startswith("UNKNOWN - q: 3 items in main")
    assert "the server has no maxmemory, so set it or omit --warn-memory" in unlimited.out
    assert on("check", "q", "--warn-memory", "80", "--crit-length", "1").code == 2
    valkey.call("CONFIG", "SET", "maxmemory", "100mb")
    fine = on("check", "q", "--warn-memory", "80", "--crit-memory", "95")
    assert fine.code == 0
    assert re.search(r" memory=[\d.]+%;80;95;0;100\n", fine.out)
    assert "% (above 0.1%)" in on("check", "q", "--crit-memory", "0.1").out.replace(" of maxmemory used", "")
    valkey.call("CONFIG", "SET", "maxmemory", "0")


def test_a_paused_queue_is_named_as_such(on: Claimq, three_items: None) -> None:
    on("pause", "q", "--for", "1h", "--reason", "upgrade")
    planned = on("check", "q")
    assert planned.code == 0
    assert re.search(r"paused by \S+ since \S+ until \S+ \(upgrade\)", planned.out)
    on("pause", "q")
    assert on("check", "q").code == 1, "a pause without an end is a warning"
    on("resume", "q")
    on("policy", "q", "suspended=true")
    assert ", paused |" in on("check", "q").out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing"], "there is no queue nothing on this server"),
        (["q", "--redis", "redis://127.0.0.1:1/0"], "start the server and try again"),
        (["q", "--warn-age", "5"], '"5" has no unit; write "5s"'),
        (["q", "--bogus"], "No such option"),
        (["--redis", "redis://127.0.0.1:1/0", "q", "--bogus"], "No such option"),
        (["q", "more"], "unexpected extra argument (more)"),
        (
            ["q", "--warn-length", "9", "--crit-length", "5"],
            "--warn-length is above --crit-length; swap them",
        ),
        (["--warn-length", "9"], "Missing argument 'NAME'"),
        (["two words"], "two words"),
        (["a|b\x1b[2J"], r"a/b\x1b[2J"),
    ],
)
def test_a_check_that_cannot_be_made_is_unknown(on: Claimq, arguments: list[str], words: str) -> None:
    on("enqueue", "q", "a")
    answer = on("check", *arguments)
    assert (answer.code, answer.err) == (3, "")
    assert answer.out.startswith("UNKNOWN - ")
    assert words in answer.out
    assert LINE.fullmatch(answer.out)


def test_no_configured_server_is_unknown(claimq: Claimq) -> None:
    answer = claimq("check", "q")
    assert answer.code == 3
    assert answer.out.startswith("UNKNOWN - no server is configured: give --redis URL")


def test_a_check_as_json_has_the_same_result(on: Claimq, three_items: None) -> None:
    answer = on("check", "q", "--warn-length", "2", "-o", "json")
    assert answer.code == 1
    found = answer.json
    assert (found["queue"], found["result"], found["values"]["main"]) == ("q", "WARNING", 3)
    assert set(found["values"]) == {"main", "busy", "delayed", "failed", "age"}
    unknown = on("check", "nothing", "-o", "json")
    assert (unknown.code, unknown.json["result"], unknown.json["values"]) == (3, "UNKNOWN", {})


def test_a_server_that_does_not_answer_is_unknown(on: Claimq, three_items: None, valkey: Server) -> None:
    valkey.sigstop()
    try:
        answer = on("check", "q")
    finally:
        valkey.sigcont()
    assert answer.code == 3
    assert LINE.fullmatch(answer.out)
