"""Curves of queues from a Prometheus that scrapes the operator."""
