"""What callers hold: one queue on one server, under one worker's name."""

from __future__ import annotations

from claimq.queue.claiming import Claiming
from claimq.queue.consuming import Consuming
from claimq.queue.inspecting import Inspecting
from claimq.queue.maintaining import Maintaining
from claimq.queue.operating import Operating
from claimq.queue.producing import Producing


class ReliableQueue(Producing, Consuming, Claiming, Maintaining, Inspecting, Operating):
    """A reliable FIFO queue. Made by :meth:`claimq.Server.queue`; cheap, so make as many as you like.

    An item is in exactly one of main, busy, delayed and failed, and every method moves it between them in one
    atomic step on the server. Nothing is kept in this object: a process that dies loses nothing, and the
    items that it held go back when their leases run out. All methods are coroutines; :mod:`claimq.blocking`
    has the same ones for synchronous programs.
    """
