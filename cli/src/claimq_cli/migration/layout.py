"""What the layouts of other queue systems have in common: where entries wait, and how an entry becomes an item."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, cast

from claimq.codec import check_name
from claimq.errors import InvalidName
from claimq.model import NewItem

Job = Mapping[bytes, bytes]
"""The fields of a job that the other system keeps in a hash; empty if it keeps none."""


class Order(StrEnum):
    """Where the next entry of a place is: at an end of a list, or at the lowest score of a sorted set."""

    LEFT = "left"
    RIGHT = "right"
    SCORES = "scores"


class Kept(Exception):
    """The entry cannot be imported and stays where it is; the message is the reason."""


class OfAnotherQueue(Exception):
    """The entry is not part of the imported queue and stays where it is."""


@dataclass(frozen=True, slots=True)
class Place:
    """A key with entries, and what they are: ``waiting``, ``scheduled``."""

    key: str
    order: Order
    label: str


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """A key whose entries are counted and reported, and never imported. ``kind``: list or zset."""

    key: str
    kind: str
    label: str


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a place: the index of the place, the score (None in a list), and the value."""

    place: int
    score: float | None
    value: bytes

    @classmethod
    def stored(cls, raw: bytes) -> Entry:
        """Reads the form in which the import's own list has it: ``PLACE|SCORE|VALUE``."""
        place, score, value = raw.split(b"|", 2)
        return cls(int(place), float(score) if score else None, value)


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An entry to write: the value, when it is due (Unix seconds; None: now), and its job, if the system keeps jobs in
    hashes."""

    value: bytes
    due_at: float | None = None
    job: Job = field(default_factory=dict[bytes, bytes])


class Layout(ABC):
    """How another system stores one of its queues. ``index``: the set of the system's queues and what it has for this
    one, if the system has such a set."""

    kind: ClassVar[str]
    has_job_hashes: ClassVar[bool] = False
    index: tuple[str, str] | None = None

    def __init__(self, name: str, places: tuple[Place, ...], left_alone: tuple[LeftAlone, ...] = ()) -> None:
        self.name = name
        self.places = places
        self.left_alone = left_alone

    @property
    def own_key(self) -> str:
        """The beginning of the import's own keys, in the cluster slot of the first place."""
        key = self.places[0].key
        return f"{key}:claimq-import" if "{" in key else f"{{{key}}}:claimq-import"

    def job_keys(self, entry: Entry) -> tuple[str, ...]:
        """The keys of the entry's job: first its hash, then others that go with it. Empty if the entry is the job."""
        del entry
        return ()

    @abstractmethod
    def item(self, entry: Entry, job: Job) -> NewItem:
        """The item of an entry. Without an id if the system has none. Raises Kept or OfAnotherQueue."""

    def due_at(self, entry: Entry) -> float | None:
        """When a scheduled entry is due, in Unix seconds."""
        return entry.score


def json_object(value: bytes, what: str) -> dict[str, Any]:
    """The JSON object in a value. Raises Kept if there is none."""
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Kept(f"{what} is not a JSON object")
    return cast("dict[str, Any]", found)


def checked_id(name: str) -> str:
    """An id of the other system as the id of an item. Raises Kept if it cannot be one."""
    try:
        return check_name("id", name)
    except InvalidName:
        raise Kept(
            "its id is longer than 200 characters or has spaces or other than ASCII characters"
        ) from None


def text_of(value: bytes) -> str:
    """An id of the other system as text. Raises Kept if it is not UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise Kept("its id is not UTF-8") from None
