"""The way in: settings from the environment, then the sidecar."""

from __future__ import annotations

import asyncio
import logging
import os
import sys

from claimq_sidecar.listening import CannotListen
from claimq_sidecar.settings import SidecarSettings, unknown_variables
from claimq_sidecar.supervisor import run
from claimq_spec.environment import InvalidSettings
from claimq_spec.log_lines import LogEvent, write_log


def main() -> int:
    """Runs the sidecar and returns its exit code."""
    try:
        settings = SidecarSettings.from_environment(os.environ)
    except InvalidSettings as error:
        for problem in error.problems:
            print(problem, file=sys.stderr)  # noqa: T201 - there is no log yet, and the reader wants the bare lines
        return 2
    # An error may quote a payload: the log has where it happened, not what it says.
    write_log(settings.log_level, quotes_errors=False, quiet=("uvicorn", "asyncio"))
    log = logging.getLogger("claimq_sidecar")
    for name in unknown_variables(os.environ):
        log.warning(LogEvent("unknown_variable", name=name))
    try:
        return asyncio.run(run(settings))
    except CannotListen as error:
        log.error(LogEvent("cannot_listen", error=error))  # noqa: TRY400 - the message says it all
        return 1
