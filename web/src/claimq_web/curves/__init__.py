"""Samples of queues, and their curves."""
