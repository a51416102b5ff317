"""Reads objects of a cluster with kubectl and its configuration, so that every way to log in works."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from claimq_cli.errors import NOT_DONE, UNAVAILABLE, CommandError

_SECONDS = 30


def kubectl_json(*arguments: str) -> Any:
    """What `kubectl ARGUMENTS -o json` prints. CommandError with kubectl's message if it fails."""
    command = ["kubectl", *arguments, "--output=json", "--request-timeout=10s"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except FileNotFoundError as error:
        raise CommandError(
            "no running `claimq up` has this queue, and kubectl, which reads it from a cluster, is not installed"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise CommandError(
            f"kubectl did not respond within {_SECONDS} s; check its context", UNAVAILABLE
        ) from error
    if done.returncode:
        message = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "it printed no error"
        raise CommandError(f"kubectl: {message}", NOT_DONE if "NotFound" in message else UNAVAILABLE)
    return json.loads(done.stdout)
