"""What users can do with a whole queue or a worker of it, and what they get as the answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from starlette.exceptions import HTTPException

from claimq_admin.changes.queue_admin import QueueAdmin
from claimq_admin.reads.documents import Json
from claimq_admin.text import count
from claimq_web.changes.filter_forms import LONGEST_FILTER, LONGEST_TEXT, check_known
from claimq_web.users.access import Right
from claimq_web.users.forms import Form


class _Action(NamedTuple):
    """What can be done. ``right``: that it needs; ``fields``: of its form, beside those of every form; ``done``: in
    words."""

    right: Right = Right.CHANGE
    fields: tuple[str, ...] = ()
    done: str = ""


ACTIONS = {
    "pause": _Action(
        fields=("until", "for", "reason", "client", "key"),
        done="is paused: workers finish what they have and claim nothing more",
    ),
    "resume": _Action(fields=("client", "key"), done="is not paused any more"),
    "suspend": _Action(Right.SUSPEND, done="is suspended: its workers end after what they have"),
    "end-suspension": _Action(Right.SUSPEND, done="is not suspended any more"),
    "drain": _Action(
        Right.DRAIN, ("worker",), "is drained: it claims nothing more, finishes its items and ends"
    ),
    "release": _Action(fields=("worker", "interrupted", "error")),
    "flush": _Action(fields=("client",)),
    "limits": _Action(Right.CONFIGURE, ("change", "limit", "until", "for", "reason"), "has other limits now"),
    "policy": _Action(Right.CONFIGURE, ("changes",)),
}


def right_of(form: Form) -> Right:
    """The right that the action of a form needs. Answers with status 400 to an unknown action, and to a field that the
    action does not have: in a later release it may limit what is changed."""
    action = ACTIONS.get(form.get("action", ""))
    if action is None:
        raise HTTPException(400, "there is no such action")
    check_known(form, {"action", "form_token", *action.fields})
    return action.right


async def change_queue(name: str, admin: QueueAdmin, form: Form) -> tuple[str, Json]:
    """Carries out the action of a form. Returns what was done, in words, and the fields of the answer to a program.

    CommandError if it cannot be done; ValueError and TypeError for a form with wrong values.
    """
    action = ACTIONS[form["action"]]
    for field in action.fields:
        if (length := len(form.get(field, ""))) > LONGEST_FILTER:
            raise ValueError(f"{field} has {length} characters; give at most {LONGEST_FILTER}")
    worker = form.get("worker", "")
    match form["action"]:
        case "pause" | "resume" | "limits" as verb:
            changes: dict[str, Callable[..., Awaitable[object]]]
            changes = {"pause": admin.pause, "resume": admin.resume, "limits": admin.change_limits}
            await changes[verb](*(form.get(field, "") for field in action.fields))
        case "suspend" | "end-suspension":
            await admin.suspend(form["action"] == "suspend")
        case "drain":
            await admin.drain(worker[:LONGEST_TEXT])
            return f"{worker} {action.done}", {}
        case "release":
            interrupted = form.get("interrupted", "false")
            if interrupted not in ("true", "false"):
                raise ValueError(f"interrupted is {interrupted[:100]!r}; give true or false")
            error = form.get("error", "")
            done = await admin.release(worker, interrupted=interrupted == "true", error=error)
            return f"{name}: {count(done['total'])} given back", done
        case "flush":
            done = await admin.flush(form.get("client"))
            return f"{name}: {count(sum(done['removed'].values()))} removed", done
        case _:
            done = await admin.update_policy(form.get("changes", ""))
            return f"the policy of {name} is changed", done
    part = next((f"the {kind} {form[kind]}" for kind in ("client", "key") if form.get(kind)), name)
    return f"{part} {action.done}", {}
