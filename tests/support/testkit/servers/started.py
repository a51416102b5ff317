"""Base of servers and proxies that a ``with`` block starts and closes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Started(ABC):
    """A context manager over :meth:`start` and :meth:`close`."""

    @abstractmethod
    def start(self) -> Self:
        """Starts it."""

    @abstractmethod
    def close(self) -> None:
        """Ends it and removes its files."""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
