"""Changes of items and queues, each with its entry in the audit log."""
