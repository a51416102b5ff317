"""Decides what one pass over a queue does, and what its status reports. Pure: no platform, no I/O."""
