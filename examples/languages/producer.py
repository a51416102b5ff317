"""A producer in Python: enqueues each line of the standard input."""

import hashlib
import sys

import claimq.worker
from claimq.worker import NewItem

with claimq.worker.connect() as worker:
    lines = (line.removesuffix("\n") for line in sys.stdin)
    # An id makes it harmless to enqueue the same item again.
    worker.enqueue_many(NewItem(line, id=hashlib.sha256(line.encode()).hexdigest()) for line in lines)
