"""What users can do with a whole queue or a worker of it, and what they get as the answer."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.exceptions import HTTPException

import claimq
from claimq_admin.changes.action_record import Record
from claimq_admin.changes.queue_actions import WORKER_DIED, QueueActions
from claimq_admin.errors import CommandError
from claimq_admin.text import count
from claimq_web.changes.filter_forms import LONGEST_FILTER, LONGEST_TEXT
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


@dataclass(frozen=True, slots=True)
class _Needs:
    """The right that an action needs, and the fields that its form may have beside those of every form."""

    right: Right
    fields: tuple[str, ...] = ()


_ACTIONS = {
    "pause": _Needs(Right.CHANGE),
    "resume": _Needs(Right.CHANGE),
    "release": _Needs(Right.CHANGE, ("worker", "interrupted", "error")),
    "flush": _Needs(Right.CHANGE, ("client",)),
    "policy": _Needs(Right.CONFIGURE, ("changes",)),
    "suspend": _Needs(Right.SUSPEND),
    "end-suspension": _Needs(Right.SUSPEND),
    "drain": _Needs(Right.DRAIN, ("worker",)),
}


def right_of(form: Form) -> Right:
    """The right that the action of a form needs. Answers with status 400 to an unknown action, and to a field that the
    action does not have: in a later release it may limit what is changed."""
    needs = _ACTIONS.get(form.get("action", ""))
    if needs is None:
        raise HTTPException(400, "there is no such action")
    if unknown := sorted(form.keys() - _ALWAYS - set(needs.fields)):
        raise HTTPException(400, f"{form['action']} has no field {unknown[0][:100]!r} on this page")
    return needs.right


async def change_queue(
    queues: Queues, name: str, queue: claimq.ReliableQueue, record: Record, form: Form
) -> tuple[str, Json]:
    """Carries out the action of a form; returns what was done, in words, and the fields of the answer to a program.

    CommandError if it cannot be done; ValueError and TypeError for a form with wrong values.
    """
    actions, action, subject = QueueActions(queue, record), form["action"], name
    match action:
        case "pause":
            await actions.pause()
        case "resume":
            await actions.resume()
        case "release":
            released = await _release(actions, form)
            return f"{name}: {count(released['total'])} given back", released
        case "flush":
            flushed = await actions.flush(form.get("client"))
            return f"{name}: {count(sum(flushed['removed'].values()))} removed", flushed
        case "policy":
            return f"the policy of {name} is changed", await _change_policy(actions, form)
        case "drain":
            subject = form.get("worker", "")[:LONGEST_TEXT]
            await record(action, subject)
            await queues.drain(name, subject)
        case _:
            await record(action)
            await queues.suspend(name, action == "suspend")
    return f"{subject} {_RESULTS[action]}", {}


async def _release(actions: QueueActions, form: Form) -> Json:
    interrupted = form.get("interrupted", "false")
    if interrupted not in ("true", "false"):
        raise ValueError(f"interrupted is {interrupted[:100]!r}; give true or false")
    error = form.get("error", "")[:LONGEST_TEXT] or WORKER_DIED
    return await actions.release(form.get("worker", ""), error, is_interrupted=interrupted == "true")


async def _change_policy(actions: QueueActions, form: Form) -> Json:
    changes = form.get("changes", "")
    if len(changes) > LONGEST_FILTER:
        raise ValueError(f"changes has {len(changes)} characters; give at most {LONGEST_FILTER}")
    try:
        return await actions.change_policy(changes.split())
    except CommandError as error:  # of a word that is not FIELD=VALUE
        raise ValueError(str(error)) from error
