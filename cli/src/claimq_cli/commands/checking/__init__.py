"""Commands that look for faults."""
