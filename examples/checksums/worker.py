"""A worker: each item is the path of a file; its SHA-256 goes to the results, one line for each.

An ordinary program. It takes items from the socket in $CLAIMQ_SOCKET by `claimq.worker`, which needs nothing but the
standard library; all it knows of queues is that an item is done or failed.

Results are appended to the file $CHECKSUMS_RESULTS (without it they go to the standard output, so to the log of a
pod), one line each: SHA-256, item id, path (percent-encoded). An item may be worked on twice, if its worker dies
between the result and `done`: whoever reads the results goes by the id.
"""

import hashlib
import os
import stat
from urllib.parse import quote_from_bytes

import claimq.worker

CHUNK = 20
"""Items claimed at once: paths are small. What is not begun when the worker ends goes back."""

READ_BYTES = 1024 * 1024
STANDARD_OUTPUT = 1


def checksum(path: bytes) -> str:
    """The SHA-256 of a regular file. Raises OSError or ValueError with the reason for anything else."""
    # Without O_NONBLOCK the opening of a named pipe would wait for somebody to write into it.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(handle).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # to read a directory is an error of its own
            raise ValueError("not a regular file: a pipe or a device has no end")
        digest = hashlib.sha256()
        while chunk := os.read(handle, READ_BYTES):
            digest.update(chunk)
        return digest.hexdigest()
    finally:
        os.close(handle)


class Results:
    """The file of results, or the standard output. A line is one write to a file that is opened for appending, so lines
    of several workers never mix."""

    def __init__(self, path: str | None) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._handle = os.open(path, flags, 0o644) if path else STANDARD_OUTPUT

    def add(self, checksum_of_file: str, item_id: str, path: bytes) -> None:
        """Appends a line. Raises OSError when it could not be written whole."""
        line = f"{checksum_of_file} {item_id} {quote_from_bytes(path)}\n".encode()
        if os.write(self._handle, line) != len(line):
            raise OSError("the results could not be written whole: is the disk full?")


def reason(error: OSError | ValueError) -> str:
    """Why a file could not be read, in words."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def main() -> None:
    """Works until it is told to end (SIGTERM, or the sidecar drains)."""
    results = Results(os.environ.get("CHECKSUMS_RESULTS"))
    with claimq.worker.connect() as worker:
        for item in worker.items(chunk=CHUNK):
            try:
                found = checksum(item.payload)
            except (OSError, ValueError) as error:
                item.fail(reason(error))
            else:
                with item:  # done at its end; failed, if the result cannot be written
                    results.add(found, item.id, item.payload)


if __name__ == "__main__":
    main()
