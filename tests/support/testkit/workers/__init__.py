"""Sidecars, and the apps and handlers that take items from them."""
