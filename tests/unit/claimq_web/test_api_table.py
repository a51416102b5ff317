"""docs/web.md has the requests of the API that the code serves."""

import re
from typing import Any, cast

from claimq_admin.changes.item_actions import CHANGEABLE
from claimq_web.api import READS
from claimq_web.changes.actions import Actions
from claimq_web.changes.queue_changes import ACTIONS
from testkit.repository.tree import ROOT

SECTION = (ROOT / "docs/web.md").read_text().partition("\n## API\n")[2].partition("\n## ")[0]
REQUESTS = re.findall(r"(?m)^\| (.*?) \| .* \|$", SECTION)[2:]
NOTHING = cast("Any", None)


def words(row: str) -> set[str]:
    return set(re.findall(r"[\w-]+", row.replace("action=", "")))


def test_the_page_of_the_api_has_each_read() -> None:
    rows = [row for row in REQUESTS if row.startswith("`GET queues/NAME/")]
    paths = {path for row in rows for path in re.findall(r"`(?:GET queues/NAME/)?([a-z]+)(?=[`?/])", row)}
    assert paths == {*READS, "selected", "runs"}


def test_the_page_of_the_api_has_each_change_of_a_queue_with_its_fields() -> None:
    rows = [words(row) for row in REQUESTS if "action=" in row]
    for name, action in ACTIONS.items():
        assert any({name, *action.fields} <= row for row in rows), name


def test_the_page_of_the_api_has_each_route_of_a_change() -> None:
    actions = Actions(NOTHING, NOTHING, NOTHING, NOTHING)
    routes = {route.path for route in (*actions.routes(), *actions.routes_of_programs())}
    pages = {path.replace("{page}", page) for path in routes for page in CHANGEABLE}
    names = {path.lstrip("/").replace("{name}", "NAME").replace("{run}", "RUN") for path in pages}
    posts = [row for row in REQUESTS if "POST" in row]
    for name in names:
        last = name.rpartition("/")[2]
        assert any(f"queues/NAME/{last}`" in row or f"`{last}`" in row or name in row for row in posts), name
