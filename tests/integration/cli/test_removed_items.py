"""`claimq failed removed`: what the policy or a drop removed, with its reason."""

from testkit.plugin import Claimq
from testkit.servers.patient import open_blocking_queue
from testkit.servers.server import Server


def test_what_was_removed_without_being_done_is_listed_with_its_reason(on: Claimq, valkey: Server) -> None:
    on("enqueue", "q", "one", "two")
    assert on("failed", "removed", "q").out == "q: no item was removed or dropped\n"
    with open_blocking_queue(valkey.url) as queue:
        for claim in queue.claim(2):
            queue.drop(claim, "of no use")
    (found,) = on("failed", "removed", "q", "--limit", "1", "-o", "json").json["items"]
    assert (found["reason"], found["payload_size"], found["item"]["text"]) == ("on_failure", 3, "two")
    shown = on("failed", "removed", "q").out
    assert all(word in shown for word in ("one", "two", "on_failure", "of no use"))
