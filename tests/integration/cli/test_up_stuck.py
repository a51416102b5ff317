"""`claimq up` kills apps that hang with an item, also with one that they do not hold any more."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testkit.waiting import eventually_sync


def spec(command: list[str], lease: str, limit: str) -> dict[str, Any]:
    return {
        "worker": {"command": command},
        "scaling": {"mode": "Manual", "replicas": 1},
        "busyExpiry": lease,
        "processingTimeout": limit,
        "requeueLimit": 0,
    }


def test_an_app_that_holds_an_item_for_too_long_is_killed_and_the_item_says_why(
    start_up: Callable[..., Any], claimq: Callable[..., Any], hanging_app: list[str], tmp_path: Path
) -> None:
    up = start_up(spec(hanging_app, "6s", "6s"))
    claimq("enqueue", "trial", "stuck")
    eventually_sync((tmp_path / "stuck").exists)
    up.until_says(
        "trial-1: the app has not answered for 1 item within the processing timeout of 6 s; killing the app"
    )
    up.until_says(r"its app \(pid \d+\) was killed: over the processingTimeout of 6s; restarting in 500 ms")
    eventually_sync(lambda: claimq("status", "trial", "-o", "json").json["lengths"]["failed"] == 1)
    (failed,) = claimq("items", "trial", "failed", "-o", "json").json["items"]
    assert failed["item"]["last_error"] == "its app was killed: over the processingTimeout of 6s"


@pytest.mark.parametrize("verb", ["cancel", "requeue", "remove"])
def test_an_app_that_hangs_with_an_item_that_was_taken_is_killed(
    start_up: Callable[..., Any],
    claimq: Callable[..., Any],
    hanging_app: list[str],
    tmp_path: Path,
    verb: str,
) -> None:
    start_up(spec(hanging_app, "3s", "6s"))
    (item,) = claimq("enqueue", "trial", "stuck", "-o", "json").json["ids"]
    eventually_sync((tmp_path / "stuck").exists)
    claimq("item", verb, "trial", item)
    claimq("enqueue", "trial", "next")
    done = tmp_path / "done"
    eventually_sync(lambda: done.exists() and "next" in done.read_text(), why="the app was started again")
