"""The user of this process, as the audit log has it."""

from __future__ import annotations

import getpass
import os
import platform


def local_user() -> str:
    """The user and the machine that this process runs as."""
    try:
        name = getpass.getuser()
    except (
        KeyError,
        OSError,
    ):  # a user without an entry in the password database; Python 3.13 raises OSError
        name = f"uid {os.getuid()}"
    return f"{name}@{platform.node()}"
