"""`claimq policy`: shows the policy of a queue and changes fields of it."""

from __future__ import annotations

from typing import Any

import click

from claimq.internals.owner import Owner, read_owner
from claimq_admin.changes.action_record import recorded_in
from claimq_admin.changes.local_user import local_user
from claimq_admin.changes.policy_fields import FIELDS, read_changes, shown
from claimq_admin.changes.queue_actions import QueueActions, policy_of
from claimq_admin.reads.owners import owner_text
from claimq_cli.commands.changing.page_changes import changes_of
from claimq_cli.commands.options.context import Context, with_context
from claimq_cli.commands.options.queue_argument import queue_argument
from claimq_cli.output import terminal


@click.command()
@queue_argument
@click.argument("changes", nargs=-1, metavar="[FIELD=VALUE]...")
@with_context
async def policy(context: Context, name: str, changes: tuple[str, ...]) -> None:
    """Show the policy of the queue NAME, or change fields of it. A change may come before the first item.

    All changes of one call are made in one step; the other fields stay as they are. Durations have a unit (30s, 5m),
    sizes may have one (1Mi), and `none` removes a limit.

    \b
    claimq policy thumbnails
    claimq policy thumbnails requeue_limit=3 busy_expiry=2m failed_max_items=none
    """
    read_changes(changes)  # a wrong one ends the command before it connects
    found = await _found(context, name, changes)
    now, owner, changed = found["policy"], found["owner"], found.get("changed", [])
    document = {"queue": name, "policy": now, "owner": owner, "changed": changed}
    if "new" in found:
        document["created"] = bool(found["new"])
    rows = [[field, shown(field, now[field])] for field in FIELDS if not changed or field in changed]
    context.answers.give_table(document, ["field", "value"], rows)
    if note := found.get("new"):
        terminal.say_error(note)
    if changed and owner is not None and (known := read_owner(owner)):
        terminal.say_error(_warning(name, known))


async def _found(context: Context, name: str, changes: tuple[str, ...]) -> dict[str, Any]:
    """The policy after the changes."""
    if page := changes_of(context, name):
        return await (page.queue("policy", changes=" ".join(changes)) if changes else page.policy())
    if not changes:
        async with context.queue(name) as queue:
            return await policy_of(queue)
    async with context.filled_queue(name) as (queue, new_queue):
        done = await QueueActions(queue, recorded_in(queue, local_user())).change_policy(changes)
        await queue.add_to_index()
    return {**done, "new": f"{name} is a new queue{new_queue.hint}" if new_queue else ""}


def _warning(name: str, owner: Owner) -> str:
    return (
        f"warning: the operator sets the policy of {name} from {owner_text(owner)}; it "
        "reverts changes of fields that the manifest sets, so change those in the manifest"
    )
