"""Runs a program for each item of a queue: what `claimq worker` does."""
