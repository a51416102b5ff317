"""Brings the cluster and the server in line with each ReliableQueue. The only package that knows all others."""
