"""`claimq up` sets the fields of the policy that its manifest has, and keeps the others."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from claimq import Policy
from claimq import connect as library_connect
from testkit.plugin import StartUp
from testkit.servers.server import Server
from testkit.waiting import eventually_sync

COMMAND: dict[str, object] = {"worker": {"command": ["true"]}, "scaling": {"maxReplicas": 1}}
OF_THE_LIBRARY = {"claim_wait_timeout": 0.5, "id_window": 60.0}


def policy(server: Server, change: dict[str, Any] | None = None) -> Policy:
    """The policy of the queue `trial`, after this change by the library."""

    async def connected() -> Policy:
        async with library_connect(server.url) as store:
            if change is not None:
                await store.queue("trial").update_policy(**change)
            return await store.queue("trial").policy()

    return asyncio.run(connected())


def fields(found: Policy) -> tuple[int, float | None, float]:
    return found.requeue_limit, found.claim_wait_timeout, found.id_window


def test_a_start_keeps_the_fields_that_the_manifest_does_not_have(start_up: StartUp, valkey: Server) -> None:
    policy(valkey, {**OF_THE_LIBRARY, "requeue_limit": 9})
    up = start_up({**COMMAND, "requeueLimit": 2}, "--redis", valkey.url, "--until-empty", wait=False)
    assert up.process.wait() == 0, up.text
    assert fields(policy(valkey)) == (2, 0.5, 60.0)


def test_a_start_sets_these_fields_too_where_the_manifest_has_them(start_up: StartUp, valkey: Server) -> None:
    policy(valkey, OF_THE_LIBRARY)
    spec = {**COMMAND, "claimWaitTimeout": "3s", "idWindow": "2m"}
    up = start_up(spec, "--redis", valkey.url, "--until-empty", wait=False)
    assert up.process.wait() == 0, up.text
    assert fields(policy(valkey)) == (5, 3.0, 120.0)


def test_a_changed_manifest_keeps_the_fields_that_it_does_not_have(
    start_up: StartUp, valkey: Server, tmp_path: Path
) -> None:
    (tmp_path / "code").mkdir()
    up = start_up({**COMMAND, "requeueLimit": 2}, "--redis", valkey.url, "--reload", str(tmp_path / "code"))
    up.until_says(r"watching /")
    policy(valkey, OF_THE_LIBRARY)
    file = tmp_path / "queue.yaml"
    manifest = json.loads(file.read_text())
    file.write_text(json.dumps({**manifest, "spec": {**COMMAND, "requeueLimit": 7}}))
    eventually_sync(lambda: policy(valkey).requeue_limit == 7, why="the manifest is used")
    assert fields(policy(valkey)) == (7, 0.5, 60.0)


def test_a_change_beside_a_running_local_mode_warns_that_its_manifest_wins(
    start_up: StartUp, claimq: Callable[..., Any]
) -> None:
    up = start_up({**COMMAND, "requeueLimit": 2})
    eventually_sync(lambda: up.state.decisions["trial"], why="the queue has a decision")
    warning = (
        "warning: the running `claimq up` sets the policy of trial from its manifest; it reverts changes"
    )
    assert warning in claimq("policy", "trial", "requeue_limit=3").err
    assert warning in claimq("limits", "trial", "set", "mail:busy=1").err
    assert claimq("limits", "trial", "set", "mail:busy=2", "--for", "1h").err == ""
    assert claimq("policy", "trial").err == ""
