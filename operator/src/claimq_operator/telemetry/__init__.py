"""Metrics, Events and health endpoints of the operator."""
