"""What the layouts of other queue systems have in common: where entries wait, and how an entry becomes an item."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, NoReturn, cast

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
    """A key with entries, and what they are: ``waiting``, ``scheduled``. ``is_shared``: it has entries of all
    queues."""

    key: str
    order: Order
    label: str
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """A key whose entries are counted and reported, and never imported. ``is_shared``: it has entries of all
    queues. ``kind``: list or zset; ``rq-limits``: the set of the rate limits of RQ, each with a sorted set of jobs;
    ``bullmq-newer``: the list of the active jobs of BullMQ, beside which a newer job of the same deduplication may
    be."""

    key: str
    kind: str
    label: str
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a place: the index of the place, the score (None in a list), and the value. ``is_renamed``: its item
    gets a new id."""

    place: int
    score: float | None
    value: bytes
    is_renamed: bool = False

    @classmethod
    def stored(cls, raw: bytes) -> Entry:
        """Reads the form in which the import's own list has it: ``PLACE|SCORE|RENAMED|VALUE``."""
        place, score, is_renamed, value = raw.split(b"|", 3)
        return cls(int(place), float(score) if score else None, value, is_renamed == b"1")


class Layout(ABC):
    """How another system stores one of its queues. ``index``: the set of the system's queues and what it has for this
    one, if the system has such a set."""

    kind: ClassVar[str]
    has_job_hashes: ClassVar[bool] = False
    index: tuple[str, str] | None = None
    signs: tuple[str, ...] = ()
    """Keys that a queue of this system has also while it is empty."""
    search: tuple[str, str]
    """A pattern of the keys of all queues of this system, as SCAN has it, and a regular expression with the groups
    ``name`` and, if the system has prefixes, ``prefix``."""

    def __init__(self, name: str, places: tuple[Place, ...], left_alone: tuple[LeftAlone, ...] = ()) -> None:
        self.name = name
        self.places = places
        self.left_alone = left_alone

    @property
    def own_key(self) -> str:
        """The beginning of the import's own keys, in the cluster slot of the first place."""
        key = self.places[0].key
        return f"{key}:claimq-import" if "{" in key else f"{{{key}}}:claimq-import"

    def job_keys(self, entry: Entry) -> tuple[bytes, ...]:
        """The keys of the entry's job: first its hash, then others that go with it. Empty if the entry is the job."""
        del entry
        return ()

    def blockers(self, entry: Entry, job: Job) -> Mapping[bytes, str]:
        """Keys with which the entry must stay, if one of them exists, and the reasons."""
        del entry, job
        return {}

    @abstractmethod
    def item(self, entry: Entry, job: Job) -> NewItem:
        """The item of an entry. Its id is that of the other system, which may be invalid here; None if it has none.
        Raises Kept or OfAnotherQueue."""

    def created_at(self, entry: Entry, job: Job) -> bytes:
        """When the job of an entry was created, as the system writes it. Jobs with the same id differ in it."""
        del entry, job
        return b""

    def due_at(self, entry: Entry) -> float | None:
        """When a scheduled entry is due, in Unix seconds."""
        return entry.score


def json_object(text: bytes, what: str) -> dict[str, Any]:
    """The JSON object in a value. Raises Kept if there is none."""
    try:
        document = JSON.decode(text.decode())
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise Kept(f"{what} is not a JSON object")
    return cast("dict[str, Any]", document)


def members(text: str) -> list[tuple[str, str]]:
    """The names and values of a JSON object, with the values as they are written: numbers, escapes and repeated names
    stay the same."""
    pairs: list[tuple[str, str]] = []
    at = 0
    while match := _MEMBER.match(text, at):
        _, at = JSON.raw_decode(text, match.end())
        pairs.append((JSON.decode(match[1]), text[match.end() : at]))
    return pairs


def text_of(text: bytes) -> str:
    """An id of the other system as text. What is not UTF-8 becomes characters that no id may have."""
    return text.decode("utf-8", "surrogateescape")


def _no_number(name: str) -> NoReturn:
    raise ValueError(name)


JSON = json.JSONDecoder(parse_constant=_no_number)
"""Refuses NaN and Infinity, which only Python reads."""
_MEMBER = re.compile(r'[\s{,]*("(?:[^"\\]|\\.)*")\s*:\s*')
