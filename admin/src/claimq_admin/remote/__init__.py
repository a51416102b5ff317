"""Queues that a command reads and changes through the API of a web page, without a connection to their server."""
