"""Calls of the library, beside raw lists and streams of the same server."""
