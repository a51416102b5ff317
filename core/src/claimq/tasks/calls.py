"""The payload of a task's item: the task's name and the arguments, as JSON. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from claimq.handler_verdicts import Fail

_SHOWN = 100
_FIELDS = {"task", "args", "kwargs"}


class Call(NamedTuple):
    """A task by its name, and the arguments to call it with. ``ignored``: other fields of the payload."""

    task: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    ignored: Sequence[str] = ()


def payload_of(call: Call) -> dict[str, object]:
    """The payload of a call. Raises TypeError or ValueError that names an argument which JSON cannot represent."""
    for name, value in [*enumerate(call.args, start=1), *call.kwargs.items()]:
        try:
            _check_keys(value)
            json.dumps(value, allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            kind = ValueError if isinstance(error, ValueError) else TypeError
            raise kind(
                f"argument {name} of {call.task} cannot be sent as JSON ({error}); give text, numbers, booleans, None, "
                "lists and dicts with text as keys, such as an id or value.isoformat()"
            ) from error
    return {"task": call.task, "args": list(call.args), "kwargs": dict(call.kwargs)}


def _check_keys(argument: object) -> None:
    """Raises TypeError for a key that JSON would turn into text: the task would get another dict than was sent."""
    if isinstance(argument, dict):
        for key, content in cast("dict[object, object]", argument).items():
            if not isinstance(key, str):
                raise TypeError(f"the key {shown(str(key))} of a dict is {type(key).__name__}, not text")
            _check_keys(content)
    elif isinstance(argument, list | tuple):
        for content in cast("Sequence[object]", argument):
            _check_keys(content)


def read_call(payload: bytes) -> Call:
    """The call in a payload. Raises a permanent Fail for anything else: no further attempt could read it.

    Other fields are ignored: a later release of a producer may write some while workers of this one run.
    """
    try:
        document = json.loads(payload)
    except (ValueError, RecursionError):
        raise _no_call("it is not JSON") from None
    if not isinstance(document, dict):
        raise _no_call("it is not an object")
    fields = cast("dict[str, Any]", document)
    task, args, kwargs = fields.get("task"), fields.get("args", []), fields.get("kwargs", {})
    if not isinstance(task, str):
        raise _no_call("task is not a string")
    if not isinstance(args, list):
        raise _no_call("args is not a list")
    if not isinstance(kwargs, dict):
        raise _no_call("kwargs is not an object")
    return Call(task, args, kwargs, sorted(fields.keys() - _FIELDS))


def shown(text: str) -> str:
    """Foreign text for an error: escaped, and its beginning if it is long."""
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


def _no_call(why: str) -> Fail:
    return Fail(
        f'the payload calls no task: {why}; enqueue {{"task": NAME, "args": [...], "kwargs": {{...}}}}',
        permanent=True,
    )
