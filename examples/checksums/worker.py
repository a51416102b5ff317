"""A worker that computes the SHA-256 of files. Each item is the path of a file.

It is an ordinary program. `claimq.worker` gives it items from the socket in $CLAIMQ_SOCKET and needs nothing but the
standard library.

Results are appended to the file $CHECKSUMS_RESULTS, or written to the standard output (the log of a pod) if it is not
set. A line has the SHA-256, the item id and the percent-encoded path. If a worker dies between the result and `done`,
the item is processed again: readers of the results keep one line for each id.
"""

import hashlib
import os
import stat
from urllib.parse import quote_from_bytes

import claimq.worker

CHUNK = 20
"""Items claimed at once. Those that are not begun when the worker ends go back to the queue."""

READ_BYTES = 1024 * 1024
STANDARD_OUTPUT = 1


def checksum(path: bytes) -> str:
    """The SHA-256 of a regular file. Raises OSError or ValueError with the reason for anything else."""
    # Without O_NONBLOCK, opening a named pipe waits for a writer.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(handle).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # reading a directory raises an error of its own
            raise ValueError("not a regular file: a pipe or a device has no end")
        digest = hashlib.sha256()
        while chunk := os.read(handle, READ_BYTES):
            digest.update(chunk)
        return digest.hexdigest()
    finally:
        os.close(handle)


class Results:
    """The file of results, or the standard output.

    Each line is a single write to a file opened for appending, so lines of several workers do not mix.
    """

    def __init__(self, path: str | None) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._handle = os.open(path, flags, 0o644) if path else STANDARD_OUTPUT

    def add(self, checksum_of_file: str, item_id: str, path: bytes) -> None:
        """Appends a line. Raises OSError if it could not be written completely."""
        line = f"{checksum_of_file} {item_id} {quote_from_bytes(path)}\n".encode()
        if os.write(self._handle, line) != len(line):
            raise OSError("the result could not be written completely: is the disk full?")


def reason(error: OSError | ValueError) -> str:
    """Why a file could not be read, in words."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def main() -> None:
    """Processes items until SIGTERM, or until the sidecar drains."""
    results = Results(os.environ.get("CHECKSUMS_RESULTS"))
    with claimq.worker.connect() as worker:
        for item in worker.items(chunk=CHUNK):
            try:
                found = checksum(item.payload)
            except (OSError, ValueError) as error:
                item.fail(reason(error))
            else:
                with item:  # done at its end, failed if the result cannot be written
                    results.add(found, item.id, item.payload)


if __name__ == "__main__":
    main()
