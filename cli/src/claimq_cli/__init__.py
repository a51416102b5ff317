"""The `claimq` command: inspects and changes queues, and runs them on one machine (local mode)."""
