"""The program of `claimq worker` and its arguments: checked once, and filled in for each item."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from claimq import Fail, Item
from claimq.item_options import ITEM_OPTIONS, Form
from claimq_admin.errors import USAGE, CommandError

_LONGEST_ARGUMENT = 32 * os.sysconf("SC_PAGE_SIZE") - 1
"""Bytes that Linux allows in one argument, without the NUL byte at its end (MAX_ARG_STRLEN)."""

_ITEM = "CLAIMQ_ITEM_"
"""Beginning of the variables with what the item has."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A program and its arguments. ``placeholder`` stands for the payload in the arguments; None: the payload goes to
    the program's stdin."""

    words: tuple[bytes, ...]
    placeholder: bytes | None

    def arguments_for(self, payload: bytes) -> Sequence[bytes]:
        """The words for a payload. Raises Fail, permanent, for a payload that cannot be part of an argument."""
        if self.placeholder is None:
            return self.words
        if b"\0" in payload:
            raise Fail(
                "the payload has a NUL byte and cannot be an argument; run the worker without -I",
                permanent=True,
            )
        words = [word.replace(self.placeholder, payload) for word in self.words]
        if max(map(len, words)) > _LONGEST_ARGUMENT:
            raise too_long(f"an argument has at most {_LONGEST_ARGUMENT:,} bytes")
        return words

    def stdin_for(self, payload: bytes) -> bytes:
        """What the program can read on stdin."""
        return payload if self.placeholder is None else b""


def too_long(limit: str) -> Fail:
    """The failure of an item whose payload makes the arguments too long."""
    return Fail(
        f"the payload is too long for an argument ({limit}); run the worker without -I", permanent=True
    )


def checked(words: Sequence[str], placeholder: str | None) -> CommandLine:
    """The command line. CommandError if the program cannot be started or the placeholder is not used."""
    program, *arguments = words
    _check_program(program)
    if placeholder is not None:
        if not placeholder:
            raise CommandError('-I: "" is empty; write a placeholder, for instance -I {}', USAGE)
        if placeholder in program:
            raise CommandError(
                f"-I: the program {program} contains the placeholder; a payload can only be an argument",
                USAGE,
            )
        if not any(placeholder in argument for argument in arguments):
            raise CommandError(
                f"-I: no argument of {program} contains {placeholder}; add it, or remove -I to use stdin",
                USAGE,
            )
    return CommandLine(
        tuple(map(os.fsencode, words)), None if placeholder is None else os.fsencode(placeholder)
    )


def _check_program(program: str) -> None:
    if shutil.which(program):
        return
    if os.sep in program and Path(program).is_dir():
        raise CommandError(f"{program} is a directory; give a program", USAGE)
    if os.sep in program and Path(program).exists():
        raise CommandError(f"{program} is not executable; run `chmod +x` on it", USAGE)
    where = "" if os.sep in program else " on PATH"
    raise CommandError(f"there is no program {program}{where}; correct its name, or install it", USAGE)


def environment_for(outer: Mapping[str, str], queue: str, item: Item) -> dict[str, str]:
    """The program's environment: that of `claimq worker`, and the item."""
    env = {name: value for name, value in outer.items() if not name.startswith(_ITEM)}
    env |= {"CLAIMQ_QUEUE": queue, _ITEM + "ID": item.id}
    for counter in ("requeue", "fail", "crash", "interrupted", "postponed", "given_up"):
        env[f"{_ITEM}{counter.upper()}_COUNT"] = str(getattr(item, f"{counter}_count"))
    texts = {"client": item.client} | {
        option.name: option.of(item) for option in ITEM_OPTIONS if option.form is not Form.HEADERS
    }
    env |= {_ITEM + name.upper(): str(value) for name, value in texts.items() if value is not None}
    headers = {name.upper().replace("-", "_"): value for name, value in item.header_pairs}
    return env | {f"{_ITEM}HEADER_{name}": value for name, value in headers.items()}
