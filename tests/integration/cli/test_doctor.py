"""`claimq doctor` on a real server."""

import json
import re
import shlex
from typing import Any

import yaml

from claimq.policy import Policy
from testkit.plugin import Claimq, QueueDo, ServerFactory
from testkit.programs.ports import free_port
from testkit.repository.tree import ROOT
from testkit.servers.server import DURABLE, Server


def by_check(answer: Any) -> dict[str, Any]:
    return {one["check"]: one for one in answer.json["checks"]}


def test_a_healthy_server_and_queue_have_no_problem(on: Claimq, queue_do: QueueDo) -> None:
    on("enqueue", "q", "a", "b")

    async def work(queue: Any) -> None:
        await queue.set_policy(Policy(requeue_limit=0))
        await queue.fail(await queue.claim(1), "no file 7")

    queue_do(work)
    answer = on("doctor", "q", "-o", "json")
    assert (answer.code, answer.err) == (0, "")
    checks = by_check(answer)
    assert {one["state"] for one in checks.values()} == {"ok", "warning"}
    assert checks["server"]["message"].startswith("reachable: valkey ")
    for name in ("clock of the server", "memory of the server", "queue q: claims", "queue q: oldest item"):
        assert (checks[name]["state"], checks[name]["fix"]) == ("ok", None)
    assert checks["queue q: failed items"]["message"] == '1 item: 1 "no file #"'
    text = on("doctor").out
    assert "ok       server: reachable: valkey " in text
    assert "NoAppendOnly: appendonly is off" in text
    assert "\n         fix: " in text
    assert "ok       queues on the server: 1 queue checked\nwarning  queue q: failed items: " in text
    assert "queue q: claims" not in text
    assert yaml.safe_load(on("doctor", "-o", "yaml").out)["checks"][0]["check"] == "server"
    rows = [json.loads(line)["check"] for line in on("doctor", "q", "-o", "ndjson").out.splitlines()]
    assert rows == [one["check"] for one in answer.json["checks"]]


def test_a_server_that_evicts_and_a_paused_queue_are_problems(on: Claimq, valkey: Server) -> None:
    on("enqueue", "q", "a")
    on("pause", "q")
    valkey.call("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    answer = on("doctor", "q", "-o", "json")
    assert (answer.code, answer.err) == (1, "")
    problems = [one for one in answer.json["checks"] if one["state"] == "problem"]
    assert [one["check"] for one in problems] == ["settings of the server", "queue q: claims"]
    assert problems[0]["message"].startswith("EvictionPolicy: ")
    assert problems[1]["fix"] == "claimq resume q"


def test_a_server_with_the_settings_of_the_page_on_production_has_no_problem(
    on: Claimq, valkey: Server
) -> None:
    page = (ROOT / "docs" / "howto" / "production.md").read_text()
    settings = dict(re.findall(r"`(appendonly|appendfsync|maxmemory-policy) (\S+)`", page))
    assert "`claimq doctor`" in page

    def problems() -> list[str]:
        checks = on("doctor", "-o", "json").json["checks"]
        settings = [one for one in checks if one["check"] == "settings of the server"]
        return [one["message"] for one in settings if one["state"] != "ok"]

    for name, value in settings.items():
        valkey.call("CONFIG", "SET", name, value)
    assert problems() == []
    for name, worse in {
        "appendonly": "no",
        "appendfsync": "everysec",
        "maxmemory-policy": "allkeys-lru",
    }.items():
        valkey.call("CONFIG", "SET", name, worse)
        assert len(problems()) == 1, name
        valkey.call("CONFIG", "SET", name, settings[name])


def test_without_a_name_the_problems_of_all_queues_are_found(on: Claimq, valkey: Server) -> None:
    for name in ("good", "paused", "stopped"):
        on("enqueue", name, "a")
    on("pause", "paused")
    valkey.call("CONFIG", "RESETSTAT")
    answer = on("doctor", "-o", "json")
    assert (answer.code, answer.err) == (1, "")
    assert "cmdstat_info:calls=2," in str(valkey.call("INFO", "commandstats")), "INFO is read for each queue"
    states = {
        check["check"]: check["state"]
        for check in answer.json["checks"]
        if check["check"].startswith("queue")
    }
    assert states == {
        "queues on the server": "ok",
        "queue good: claims": "warning",
        "queue paused: claims": "problem",
        "queue stopped: claims": "warning",
    }


def test_a_damaged_key_is_a_problem_whose_command_corrects_it(on: Claimq, valkey: Server) -> None:
    on("enqueue", "q", "a", "--client", "ann;x")
    valkey.call("DEL", "cq:{q}:clients")
    answer = on("doctor", "q", "-o", "json")
    assert (answer.code, answer.err) == (1, "")
    check = by_check(answer)["queue q: keys"]
    assert check["state"] == "problem"
    assert check["message"] == "cq:{q}:clients lacks the client ann;x, whose items wait"
    assert check["fix"] == "redis-cli ZADD 'cq:{q}:clients' 1 'ann;x'"
    valkey.call(*shlex.split(check["fix"])[1:])
    assert by_check(on("doctor", "q", "-o", "json"))["queue q: keys"]["state"] == "ok"


def test_a_server_that_cannot_be_used_is_a_problem(
    on: Claimq, valkey: Server, claimq: Claimq, monkeypatch: Any
) -> None:
    for arguments in (["--redis", f"redis://127.0.0.1:{free_port()}/0"], ["--redis", valkey.url, "nowhere"]):
        answer = on("doctor", *arguments, "-o", "json")
        assert (answer.code, answer.err) == (1, "")
        assert answer.json["checks"][-1]["state"] == "problem"
    assert "no queue nowhere" in answer.json["checks"][-1]["message"]
    monkeypatch.delenv("CLAIMQ_REDIS_URL")
    (without,) = claimq("doctor", "-o", "json").json["checks"]
    assert (without["state"], "no server is configured" in without["message"]) == ("problem", True)


def test_it_changes_nothing(on: Claimq, valkey: Server) -> None:
    on("enqueue", "q", "a")

    def stored() -> dict[str, object]:
        keys: Any = valkey.call("KEYS", "*")
        return {repr(key): valkey.call("DUMP", key) for key in keys}

    before = stored()
    assert [on("doctor").code, on("doctor", "q").code] == [0, 0]
    assert stored() == before


def test_what_the_user_may_not_read_hides_no_other_check(
    on: Claimq, valkey: Server, monkeypatch: Any
) -> None:
    on("enqueue", "q", "a")
    valkey.call("ACL", "SETUSER", "ann", "on", ">pw", "~*", "&*", "+@all", "-info", "-config")
    monkeypatch.setenv("CLAIMQ_REDIS_URL", valkey.tcp_url.replace("redis://", "redis://ann:pw@"))
    answer = on("doctor", "q", "-o", "json")
    assert (answer.code, answer.err) == (0, "")
    checks = by_check(answer)
    assert checks["server"]["message"].startswith("could not be checked: ")
    assert checks["memory of the server"]["state"] == "warning"
    assert checks["queue q: claims"]["state"] == "warning"
    assert "pw" not in checks["queue q: claims"]["fix"]


def test_a_server_that_cannot_run_the_scripts_is_a_problem(
    claimq: Claimq, start_server: ServerFactory
) -> None:
    server = start_server("valkey", dict(DURABLE))
    claimq("--redis", server.url, "enqueue", "q", "a")
    server.kill9()
    server.options["rename-command"] = 'TIME ""'
    server.start()
    refused = "the server cannot run claimq's scripts: valkey "
    answer = claimq("--redis", server.url, "doctor", "-o", "json")
    assert (answer.code, answer.err) == (1, "")
    found = by_check(answer)["scripts on the server"]
    assert found["message"].startswith(refused)
    assert (found["state"], found["fix"]) == ("problem", "use a server of the table in docs/servers.md")
    monitored = claimq("--redis", server.url, "check", "q")
    assert (monitored.code, monitored.out.startswith(f"CRITICAL - {refused}")) == (2, True)
