"""The report of a server whose user may not read its settings."""

from testkit.servers.patient import open_server
from testkit.servers.server import Server


async def test_the_report_of_a_user_who_may_not_ask_says_unknown(server: Server) -> None:
    server.call("ACL", "SETUSER", "worker", "on", ">x", "~cq:*", "+@all", "-config")
    server.call("ACL", "LOG", "RESET")
    async with open_server(f"unix://worker:x@{server.unix_path}?db=0") as store:
        for _ in range(2):
            report = await store.report()
            messages = {warning.code: warning.message for warning in report.warnings}
            assert messages["SettingsHidden"].startswith("appendfsync is unknown")
            assert report.appendfsync is None
    entries = server.call("ACL", "LOG")
    assert isinstance(entries, list)
    objects = [
        one[one.index(b"object") + 1 : one.index(b"object") + 2] for one in entries if isinstance(one, list)
    ]
    counts = [one[one.index(b"count") + 1] for one in entries if isinstance(one, list)]
    assert (objects, counts) == ([[b"config|get"]], [1])
