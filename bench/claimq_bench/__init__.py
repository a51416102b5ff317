"""Measures claimq against the raw list pattern and streams, and what it costs when a queue is large."""
