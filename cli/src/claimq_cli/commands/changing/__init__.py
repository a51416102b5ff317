"""Commands that change items and queues."""
