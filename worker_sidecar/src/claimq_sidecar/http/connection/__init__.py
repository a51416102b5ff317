"""Connections: their sockets, their limits, and their bytes until these are a request of the app."""
