"""What users can do with a whole queue or a worker of it, and what they get as the answer."""

from __future__ import annotations

from starlette.exceptions import HTTPException

from claimq_admin.changes.queue_actions import QUEUE_ACTIONS
from claimq_admin.direct_admin import DirectAdmin
from claimq_admin.errors import CommandError
from claimq_admin.text import count
from claimq_web.changes.filter_forms import LONGEST_FILTER, LONGEST_TEXT, check_known
from claimq_web.queues.queues import Json, Queues
from claimq_web.users.access import Right
from claimq_web.users.forms import Form

_RESULTS = {
    "pause": "is paused: workers finish what they have and claim nothing",
    "resume": "is not paused any more",
    "suspend": "is suspended: its workers end after what they have",
    "end-suspension": "is not suspended any more",
    "drain": "is drained: it claims nothing more, finishes its items and ends",
}
_ALWAYS = {"action", "form_token"}


_FIELDS = {**QUEUE_ACTIONS, "suspend": (), "end-suspension": (), "drain": ("worker",)}
"""What can be done, and the fields of its form beside those of every form."""
_RIGHTS = {
    "policy": Right.CONFIGURE,
    "suspend": Right.SUSPEND,
    "end-suspension": Right.SUSPEND,
    "drain": Right.DRAIN,
}
"""The rights of actions that need another one than CHANGE."""


def right_of(form: Form) -> Right:
    """The right that the action of a form needs. Answers with status 400 to an unknown action, and to a field that the
    action does not have: in a later release it may limit what is changed."""
    action = form.get("action", "")
    if action not in _FIELDS:
        raise HTTPException(400, "there is no such action")
    check_known(form, {*_ALWAYS, *_FIELDS[action]})
    return _RIGHTS.get(action, Right.CHANGE)


async def change_queue(queues: Queues, name: str, admin: DirectAdmin, form: Form) -> tuple[str, Json]:
    """Carries out the action of a form; returns what was done, in words, and the fields of the answer to a program.

    CommandError if it cannot be done; ValueError and TypeError for a form with wrong values.
    """
    action = form["action"]
    fields = {field: form[field] for field in _FIELDS[action] if field in form}
    if action in QUEUE_ACTIONS:
        return await _change(name, admin, action, fields)
    subject = fields.get("worker", "")[:LONGEST_TEXT]
    await admin.record(action, subject)
    if action == "drain":
        await queues.drain(name, subject)
    else:
        await queues.suspend(name, action == "suspend")
    return f"{subject or name} {_RESULTS[action]}", {}


async def _change(name: str, admin: DirectAdmin, action: str, fields: dict[str, str]) -> tuple[str, Json]:
    for field, text in fields.items():
        if len(text) > LONGEST_FILTER:
            raise ValueError(f"{field} has {len(text)} characters; give at most {LONGEST_FILTER}")
    try:
        done = await admin.change_queue(action, **fields)
    except CommandError as error:  # of a word that is not FIELD=VALUE
        raise ValueError(str(error)) from error
    match action:
        case "release":
            text = f"{name}: {count(done['total'])} given back"
        case "flush":
            text = f"{name}: {count(sum(done['removed'].values()))} removed"
        case "policy":
            text = f"the policy of {name} is changed"
        case _:
            text = f"{name} {_RESULTS[action]}"
    return text, done
