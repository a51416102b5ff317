"""Simulates one queue, its worker pods and an autoscaler, to compare scaling settings.

Nothing here talks to a server or a cluster, and time is simulated: the same seed gives the same run.
"""
