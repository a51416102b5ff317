"""`claimq top`: a live view of queues on a terminal."""
