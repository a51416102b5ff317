"""The `claimq` command: local mode, inspection of queues, failed items."""
