"""The owner of a queue on its server: the Kubernetes object that may set its policy and delete it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from claimq.errors import StoreMisused
from claimq.redis_store.keys import Keys

_PART = re.compile("[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
_NUMBER = re.compile("[0-9]{1,15}")


@dataclass(frozen=True, slots=True)
class Owner:
    """An object of a cluster. ``number`` counts the owners that the queue has had; 0 before it is recorded.

    Raises ValueError for a part with other characters than letters, digits, "-" and ".".
    """

    cluster: str
    namespace: str
    name: str
    uid: str
    number: int = 0

    def __post_init__(self) -> None:
        for part in ("cluster", "namespace", "name", "uid"):
            if not _PART.fullmatch(getattr(self, part)):
                raise ValueError(f"{part} of an owner has 1 to 253 letters, digits, '-' and '.'; correct it")

    def __str__(self) -> str:
        """``CLUSTER/NAMESPACE/NAME/UID/NUMBER``, as people write it to take over the queue."""
        return "/".join((self.cluster, self.namespace, self.name, self.uid, str(self.number)))

    def words(self) -> str:
        """The record without its number, as the server stores it."""
        return f"{self.cluster} {self.namespace} {self.name} {self.uid}"


def read_owner(text: str, separator: str = "/") -> Owner | None:
    """Parses an owner with its number; None for other text."""
    parts = text.split(separator)
    if len(parts) != 5 or not _NUMBER.fullmatch(parts[4]):
        return None
    try:
        return Owner(parts[0], parts[1], parts[2], parts[3], int(parts[4]))
    except ValueError:
        return None


def owner_on_record(record: bytes, queue: str) -> Owner:
    """Parses the owner as the server stores it. Raises StoreMisused."""
    owner = read_owner(record.decode("ascii", "replace"), " ")
    if owner is None:
        raise StoreMisused(
            f"the owner of the queue {queue} cannot be read; remove it with HDEL {Keys(queue).config} owner, if the "
            "queue is yours"
        )
    return owner
