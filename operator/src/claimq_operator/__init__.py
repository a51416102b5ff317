"""The claimq operator: reconciles ReliableQueues with their workers and their queues on Redis."""
