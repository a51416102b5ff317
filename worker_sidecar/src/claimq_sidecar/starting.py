"""The way in: settings from the environment, then the sidecar."""

from __future__ import annotations

import asyncio
import logging
import os
import sys

from claimq.environment import InvalidSettings
from claimq_sidecar import log_lines
from claimq_sidecar.listening import CannotListen
from claimq_sidecar.settings import SidecarSettings, unknown_variables
from claimq_sidecar.supervisor import run


def main() -> int:
    """Runs the sidecar and returns its exit code."""
    try:
        settings = SidecarSettings.from_environment(os.environ)
    except InvalidSettings as error:
        for problem in error.problems:
            print(problem, file=sys.stderr)  # noqa: T201 - there is no log yet, and the reader wants the bare lines
        return 2
    log_lines.configure(settings.log_level)
    log = logging.getLogger("claimq_sidecar")
    for name in unknown_variables(os.environ):
        log.warning("event=unknown_variable name=%s", name)
    try:
        return asyncio.run(run(settings))
    except CannotListen as error:
        log.error("event=cannot_listen error=%r", str(error))  # noqa: TRY400 - the message says it all
        return 1
