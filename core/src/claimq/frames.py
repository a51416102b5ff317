"""Formats where an exception was raised, to be stored with an item."""

from __future__ import annotations

import traceback

_FRAMES, _CAUSES = 8, 2


def last_frames(error: BaseException, *, without: str = "") -> str:
    """The last frames of an exception and of its causes, innermost last: one line each with file, line and function.

    Without source lines, values and the texts of causes, which may contain secrets. ``without``: a file whose frames
    are left out.
    """
    lines: list[str] = []
    one: BaseException | None = error
    for _ in range(1 + _CAUSES):
        if one is None:
            break
        if lines:
            lines.append(f"caused by {type(one).__name__}")
        frames = [frame for frame in traceback.extract_tb(one.__traceback__) if frame.filename != without]
        lines += [f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in frames[-_FRAMES:]]
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
    return "\n".join(lines)
