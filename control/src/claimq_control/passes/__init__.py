"""Runs the passes over a queue: maintenance on its server, a plan, orders to the platform of its workers."""
