"""`claimq policy`: shows the policy of a queue and changes fields of it."""

from __future__ import annotations

import click

from claimq.internals.owner import Owner, read_owner
from claimq.policy import POLICY_FIELDS, Policy, PolicyChanges
from claimq_admin.changes.policy_fields import read_changes, shown
from claimq_admin.changes.queue_admin import QueueAdmin
from claimq_admin.reads.owners import owner_text
from claimq_cli.commands.changing.interruptible import interruptible
from claimq_cli.commands.options.context import Context, with_context
from claimq_cli.commands.options.queue_argument import queue_argument
from claimq_cli.commands.options.queue_names import NewQueue
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

    With -o json: `{"queue", "policy": {FIELD: VALUE}, "owner", "changed"}`; the owner as
    `CLUSTER/NAMESPACE/NAME/UID/NUMBER`.
    """
    new_values = read_changes(changes)  # a wrong one ends the command before it connects
    new_queue: NewQueue | None = None
    if changes:
        async with context.filled_admin(name) as (admin, new_queue):
            changes_made = await interruptible(
                admin.update_policy(" ".join(changes)), lambda: _state(name, admin, new_values)
            )
    else:
        async with context.admin(name) as admin:
            changes_made = await admin.policy()
    now, owner, changed = changes_made["policy"], changes_made["owner"], changes_made.get("changed", [])
    document = {"queue": name, "policy": now, "owner": owner, "changed": changed}
    if changes:
        document["created"] = new_queue is not None
    rows = [[field, shown(field, now[field])] for field in POLICY_FIELDS if not changed or field in changed]
    context.answers.give_table(document, ["field", "value"], rows)
    if new_queue:
        terminal.say_error(f"{name} is a new queue{new_queue.hint}")
    if "max_payload" in changed and now["max_payload"] > Policy().max_payload:
        terminal.say_error(
            "note: an item of 8 MiB blocks the server for up to 80 ms; smaller items block it for less"
        )
    if changed and (text := await owner_warning(context, name, read_owner(owner) if owner else None)):
        terminal.say_error(text)


async def _state(name: str, admin: QueueAdmin, new_values: PolicyChanges) -> str:
    now = (await admin.policy())["policy"]
    is_changed = all(shown(field, now[field]) == shown(field, value) for field, value in new_values.items())
    return f"the policy of {name} {'has the changes' if is_changed else 'is not changed; repeat the command'}"


async def owner_warning(context: Context, name: str, owner: Owner | None) -> str:
    """That the operator or a running `claimq up` sets the policy of the queue from a manifest; else empty."""
    if owner is not None:
        who = f"the operator sets the policy of {name} from {owner_text(owner)}"
    elif context.cluster is None and await context.decision(name):
        who = f"the running `claimq up` sets the policy of {name} from its manifest"
    else:
        return ""
    return f"warning: {who}; it reverts changes of fields that the manifest sets, so change those in the manifest"
