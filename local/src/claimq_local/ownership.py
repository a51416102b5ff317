"""Refuses to run a queue that another object owns, unless the user takes it over."""

from __future__ import annotations

import hashlib
import os
import re
import socket
from collections.abc import Sequence
from pathlib import Path

import claimq
from claimq.internals.operations import internals
from claimq.internals.owner import Owner
from claimq_admin.errors import REFUSED, LocalModeError
from claimq_admin.reads.owners import LOCAL_CLUSTER, owner_text


async def ensure_ownership(queue: claimq.ReliableQueue, directory: Path, take_over: Sequence[str]) -> None:
    """Returns if the queue has no owner or this directory owns it. Takes it over from an owner in ``take_over``.

    A queue without an owner stays without one, so that local modes on several machines can share it. Raises
    LocalModeError if another object owns the queue.
    """
    found = await internals(queue).owner()
    own = local_owner(queue.name, directory)
    if found is None or found.words() == own.words():
        return
    if str(found) in take_over:
        found = await internals(queue).own(own, take_over_from=found)
    if found.words() != own.words():
        raise LocalModeError(_refusal(queue.name, found), REFUSED)


def local_owner(queue: str, directory: Path) -> Owner:
    """The owner record of the local mode that runs in ``directory`` on this host as this user."""
    host = re.sub("[^A-Za-z0-9.-]", "-", socket.gethostname()).strip("-.")[:200] or "localhost"
    place = f"{host}\0{os.getuid()}\0{directory}"
    uid = hashlib.sha256(os.fsencode(place)).hexdigest()[:32]
    return Owner(LOCAL_CLUSTER, host, re.sub("[^A-Za-z0-9.-]", "-", queue).strip("-."), uid)


def _refusal(queue: str, owner: Owner) -> str:
    return (
        f"the queue {queue} is owned by {owner_text(owner)}; set another spec.queueName, or take it over with "
        f"--take-over {owner}"
    )
