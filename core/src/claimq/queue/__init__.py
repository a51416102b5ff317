"""One queue on one server. ``claimq.ReliableQueue`` is the public class; each module holds one part of its methods.

``producing`` enqueues. ``claiming`` claims items, ``settling`` ends and renews claims. ``reading`` reads a queue's
state and finds items, ``failed`` is about failed items, and ``maintaining`` is for operators.
"""
