"""Commands that look into queues."""
