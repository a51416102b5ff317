"""The public class: one queue on one server, under one worker's name."""

from __future__ import annotations

from claimq.queue.audit_log import AuditLog
from claimq.queue.claiming_items import ClaimingItems
from claimq.queue.consuming import Consuming
from claimq.queue.maintaining import Maintaining
from claimq.queue.producing import Producing


class ReliableQueue(Producing, Consuming, ClaimingItems, Maintaining, AuditLog):
    """A reliable FIFO queue. :meth:`claimq.Server.queue` makes it; it is cheap, so make as many as you like.

    ======================  ====================================================================================
    to produce              ``enqueue``, ``enqueue_many``
    to work                 ``claim``, ``renew``, ``done``, ``fail``, ``requeue``, ``unclaim``, ``drop``, ``crash``;
                            or ``consume``, which does all of it; ``claim_item`` for a chosen item
    to look                 ``snapshot``, ``length``, ``lengths``, ``age``, ``stats``, ``peek``, ``items``, ``find``,
                            ``workers``, ``exists``, ``clients``, ``client_length``, ``has_client``,
                            ``memory_usage``, ``memory_share``
    failed items            ``failed_items``, ``failed_item``, ``requeue_failed``, ``requeue_failed_item``,
                            ``remove_failed``, ``remove_failed_item``, ``drain_failed``, ``removed_items``,
                            ``apply_failed_policy``
    policy                  ``policy``, ``set_policy``, ``update_policy``, ``pause``, ``resume``
    to keep it in order     ``reap``, ``release_worker``, ``flush``, ``flush_client``, ``delete``, ``add_to_index``
    what people did         ``record_action``, ``audit_log``
    ======================  ====================================================================================

    An item is in exactly one of main, busy, delayed and failed, and every method moves it between them in one atomic
    step on the server. The object holds no state of the queue: if the process dies, nothing is lost, and the items that
    it held go back when their leases run out. All methods are coroutines; :mod:`claimq.blocking` has the same ones for
    synchronous programs.
    """
