"""What is read of a queue, and its documents for programs."""
