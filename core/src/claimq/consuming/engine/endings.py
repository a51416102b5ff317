"""How claims end. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from claimq.handler_verdicts import Closing
from claimq.model import Claim, NewItem

AnyClaim = TypeVar("AnyClaim", bound=Claim | str)


@dataclass(frozen=True, slots=True)
class Ending(Generic[AnyClaim]):
    """How some claims end. Only the fields of the verb are used."""

    claims: Sequence[AnyClaim]
    error: str = ""
    permanent: bool = False
    detail: str = ""
    delay: float | None = None
    enqueue: tuple[NewItem, ...] = ()
    close: Closing | None = None
