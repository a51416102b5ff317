"""Items that were removed without having been done, and what removed them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from claimq.model import Item, Located


@dataclass(frozen=True, slots=True)
class Removed:
    """Number of removed failed items, and the first of them up to ``log_limit``."""

    count: int
    items: tuple[Located, ...] = ()


class RemovalReason(StrEnum):
    """Why an item was removed without having been done."""

    ON_EXPIRY = "on_expiry"
    ON_FAILURE = "on_failure"
    MAX_ITEMS = "max_items"
    POLICY = "policy"


@dataclass(frozen=True, slots=True)
class RemovedItem:
    """An item that was removed without having been done. ``reason`` is one of :class:`RemovalReason`. ``item`` has no
    history, and the first 1,000 bytes of a payload of ``payload_size`` bytes."""

    item: Item
    removed_at: float
    reason: str
    payload_size: int


@dataclass(frozen=True, slots=True)
class FailedPass:
    """Result of one pass of the policy for failed items."""

    requeued: int = 0
    removed: int = 0
