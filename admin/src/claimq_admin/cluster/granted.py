"""What the environment grants to the queues of a cluster, as the operator's settings do."""

from __future__ import annotations

import os

from claimq_admin.errors import USAGE, CommandError
from claimq_control.grants import QueueGrants
from claimq_process.environment import InvalidSettings


def granted() -> QueueGrants:
    """The grants of CLAIMQ_QUEUE_NAMES and CLAIMQ_PASSWORD_HOSTS. CommandError if they are not valid."""
    try:
        return QueueGrants.from_environment(os.environ)
    except InvalidSettings as error:
        raise CommandError("; ".join(error.problems), USAGE) from error
