"""Decides what to do for one queue and what its status reports. Pure: no I/O, no clock."""
