"""One queue on one server. ``claimq.ReliableQueue`` is the public class; each module holds one part of its methods.

``producing`` enqueues. ``claiming`` claims items and ends claims; ``consuming`` runs a handler on them. ``inspecting``
reads a queue's state, ``failed_items`` is about failed items, and ``maintaining`` is for operators.
"""
