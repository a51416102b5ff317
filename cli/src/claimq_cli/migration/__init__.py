"""Reads waiting work of other queue systems and of files, and turns it into items. Prints nothing."""
