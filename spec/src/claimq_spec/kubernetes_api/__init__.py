"""Requests to the Kubernetes API, of operator and web page."""
