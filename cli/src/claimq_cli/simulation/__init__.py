"""A discrete-event simulation of one queue, its worker pods and an autoscaler, for choosing and judging
scaling settings.

Nothing here talks to a server or a cluster, and time is simulated: the same seed gives the same run.
"""
