"""Programs in which gevent or eventlet has replaced the threads and sockets of the standard library.

With gevent, the blocking operations work: their event loop has a real thread, with a hub of its own, and callers wait
as greenlets.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

_PATCHED = ("threading", "socket", "select", "selectors")
_MODULES = {"socket": "socket", "thread": "threading"}
_CHECKS = {
    "gevent": ("gevent.monkey", "is_module_patched"),
    "eventlet": ("eventlet.patcher", "is_monkey_patched"),
}


def patched_by() -> str | None:
    """``gevent`` or ``eventlet``, if it has replaced threads or sockets; otherwise None."""
    return next(
        (library for library in _CHECKS if any(_has_patched(library, name) for name in _PATCHED)), None
    )


def refuse_green_threads(what: str, remedy: str) -> None:
    """Raises RuntimeError if a library has replaced threads or sockets. Its message has ``what`` and ``remedy``."""
    if library := patched_by():
        raise RuntimeError(
            f"{what} needs real threads, which {library} has replaced in this process: {remedy}"
        )


def refuse_unusable_threads(what: str, *, blocks_on_sockets: bool = False) -> None:
    """Raises RuntimeError where callers of ``what`` would stop each other: with eventlet, and with a gevent that has
    replaced sockets, but not threads. ``blocks_on_sockets``: also with one that has replaced threads, but not sockets.
    """
    if (library := patched_by()) == "eventlet":
        raise RuntimeError(
            f"{what} does not work where eventlet has replaced threads and sockets; run this process without "
            "eventlet, or with gevent"
        )
    if library != "gevent":
        return
    pairs = [("socket", "thread")] + ([("thread", "socket")] if blocks_on_sockets else [])
    for replaced, missing in pairs:
        if _has_patched("gevent", _MODULES[replaced]) and not _has_patched("gevent", _MODULES[missing]):
            raise RuntimeError(
                f"gevent has replaced {replaced}s, but not {missing}s, so every call would stop all greenlets; call "
                f"gevent.monkey.patch_all() without {missing}=False"
            )


def start_thread(run: Callable[[], None]) -> None:
    """Calls ``run`` in a real thread, which does not keep the process from ending."""
    if patched_by() is None:
        threading.Thread(target=run, name="claimq", daemon=True).start()
        return
    # This thread imports the module and makes its hub first: two threads that make their first hubs at the same time
    # can wait for each other's imports.
    from claimq.concurrency import gevent_loop

    gevent_loop.get_hub()
    gevent_loop.get_original("_thread", "start_new_thread")(run, ())


def new_event_loop() -> asyncio.AbstractEventLoop:
    """An event loop for the calling thread."""
    if patched_by() is None:
        return asyncio.new_event_loop()
    from claimq.concurrency import gevent_loop

    return gevent_loop.GeventLoop()


def is_of_gevents_socket(error: BaseException, file: str) -> bool:
    """Whether a frame of this file is one of gevent's sockets, which raised the error or passed it on.

    Other errors come through the same files: a ``gevent.Timeout`` of the caller or a ``kill`` raises them in a greenlet
    that waits.
    """
    package = sys.modules.get("gevent")
    if package is None:
        return False
    is_of_gevent = file.startswith((str(Path(str(package.__file__)).parent), "src/gevent/"))
    return is_of_gevent and (isinstance(error, OSError) or type(error).__module__.startswith("gevent."))


def _has_patched(library: str, name: str) -> bool:
    module, check = _CHECKS[library]
    is_patched: Any = getattr(sys.modules.get(module), check, None)
    return is_patched is not None and bool(is_patched(name))
