"""Shows the progress of a long command in one line of the terminal."""

from __future__ import annotations

import time
from contextlib import suppress

import click

_SECONDS = 0.2
"""Seconds between two updates."""


class Progress:
    """Shows the progress in one line of the terminal."""

    def __init__(self, *, is_shown: bool) -> None:
        self._is_shown = is_shown
        self._next = time.monotonic() + 2 * _SECONDS
        self._is_drawn = False

    def show(self, text: str) -> None:
        """Shows a text, at most five times a second."""
        now = time.monotonic()
        if self._is_shown and now >= self._next:
            self._next = now + _SECONDS
            self._is_drawn = True
            self._write(f"\r{text}\x1b[K")

    def clear(self) -> None:
        """Removes the text from the terminal."""
        if self._is_drawn:
            self._write("\r\x1b[K")

    @staticmethod
    def _write(text: str) -> None:
        with suppress(OSError):  # the terminal is gone; the command continues
            click.echo(text, err=True, nl=False)
