"""A worker in Python. Each item is the path of a file; the result is a line with its SHA-256 and the item's id on the
standard output.

``claimq.worker`` is part of the package ``claimq`` and needs only the standard library.
"""

import hashlib
from pathlib import Path

import claimq.worker

with claimq.worker.connect() as worker:
    for item in worker.items():
        with item, Path(item.text).open("rb") as file:
            checksum = hashlib.file_digest(file, "sha256").hexdigest()
            print(checksum, item.id, flush=True)
