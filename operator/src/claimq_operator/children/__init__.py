"""Builders of a queue's child objects: from the queue and the settings to plain JSON. Pure."""
