"""A file that keeps its reader waiting."""

import os
from pathlib import Path


class Pipe:
    """A file without content until the test writes it, so that its item stays in progress."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        self._writer = -1

    def is_read(self) -> bool:
        """Whether a worker has opened it; its read goes on until :meth:`write`."""
        try:
            self._writer = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return False
        return True

    def write(self, content: bytes) -> None:
        """Writes all of its content, so that the read ends."""
        os.write(self._writer, content)
        self.close()

    def close(self) -> None:
        """Ends the read without content."""
        os.close(self._writer)
