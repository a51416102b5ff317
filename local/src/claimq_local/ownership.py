"""The owner that local mode is, and its refusal to run the queue of another one."""

from __future__ import annotations

import hashlib
import os
import re
import socket
from pathlib import Path

from claimq.internals.owner import Owner
from claimq_admin.errors import REFUSED, LocalModeError
from claimq_admin.reads.owners import LOCAL_CLUSTER, owner_text


def local_owner(queue: str, directory: Path) -> Owner:
    """The owner record of the local mode that runs in ``directory`` on this host as this user."""
    host = re.sub("[^A-Za-z0-9.-]", "-", socket.gethostname()).strip("-.")[:200] or "localhost"
    place = f"{host}\0{os.getuid()}\0{directory}"
    uid = hashlib.sha256(os.fsencode(place)).hexdigest()[:32]
    return Owner(LOCAL_CLUSTER, host, re.sub("[^A-Za-z0-9.-]", "-", queue).strip("-."), uid)


def refusal(queue: str, owner: Owner) -> LocalModeError:
    """The error for a queue that another object owns."""
    message = (
        f"the queue {queue} is owned by {owner_text(owner)}; set another spec.queueName, or take it over with "
        f"--take-over {owner}"
    )
    return LocalModeError(message, REFUSED)
