"""Jobs of other queue systems, in the keys that these systems use, for tests of imports."""

from __future__ import annotations

from claimq.blocking import BlockingQueue
from testkit.servers.server import Server


def a_job(server: Server, system: str, name: str, *, due: str = "", created: str = "1") -> None:
    """A job of the queue ``old``: waiting, or delayed until ``due`` (seconds)."""
    match system:
        case "bullmq":
            server.call("HSET", f"bull:old:{name}", "name", "n", "data", "{}", "timestamp", created)
            score = due if due in ("", "inf", "-inf") else str(int(due) * 4_096_000)
            places, value = ("bull:old:wait", "bull:old:delayed"), name
        case "rq":
            server.call("HSET", f"rq:job:{name}", "data", f"[{name}]", "created_at", created)
            places, value, score = ("rq:queue:old", "rq:scheduled:old"), name, due
        case _:
            places, score = ("queue:old", "schedule"), due
            value = f'{{"jid":"{name}","queue":"old","class":"C","args":[],"created_at":{created}}}'
    if due:
        server.call("ZADD", places[1], score, value)
    else:
        server.call("LPUSH" if system != "rq" else "RPUSH", places[0], value)


def names(queue: BlockingQueue) -> list[str]:
    """The ids in main and delayed as the jobs had them."""
    found = [*queue.items("main", 1000), *queue.items("delayed", 1000)]
    return [one.item.id.partition("@")[0].removeprefix("old:") for one in found]
