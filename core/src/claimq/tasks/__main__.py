"""``python -m claimq.tasks MODULE:APP``: works on the tasks of an app."""

from __future__ import annotations

import argparse
import importlib
import logging
import signal
import sys

from claimq.errors import ClaimqError
from claimq.handler_verdicts import Fail
from claimq.tasks.app import App


def main() -> int:
    """Runs the command; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m claimq.tasks",
        description="Work on the tasks of an app until SIGTERM, SIGINT or a drain: through the sidecar if "
        "$CLAIMQ_SOCKET is set, else directly on the server.",
    )
    parser.add_argument("app", metavar="MODULE:APP", help="module and name of the App, such as mail:app")
    parser.add_argument(
        "--concurrency", type=int, help="Tasks at a time (default: the limit of the sidecar, else 1)."
    )
    parser.add_argument("--die-on-error", action="store_true", help="End at the first task that fails.")
    parser.add_argument(
        "--until-empty",
        action="store_true",
        help="End when main is empty; retries that wait are left (not with a sidecar).",
    )
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        app = _app(options.app)
    except ModuleNotFoundError as error:
        unsearched = (
            "; PYTHONSAFEPATH excludes the current directory: set PYTHONPATH=." if sys.flags.safe_path else ""
        )
        parser.error(f"{error}{unsearched}")
    except (ImportError, ValueError) as error:
        parser.error(str(error))
    # A handler that a module of the app has set would keep this worker from ending.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        app.run(
            concurrency=options.concurrency,
            die_on_error=options.die_on_error,
            return_when_empty=options.until_empty,
        )
    except (ClaimqError, Fail, ValueError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


def _app(name: str) -> App:
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise ValueError(f"{name!r} names no app; write MODULE:APP, such as mail:app")
    app = getattr(importlib.import_module(module), attribute, None)
    if not isinstance(app, App):
        raise ValueError(
            f"{attribute} of the module {module} is {type(app).__name__}; name a claimq.tasks.App"
        )
    return app


if __name__ == "__main__":
    sys.exit(main())
