"""The child objects of a queue, one builder each. Pure: from the queue and the settings to plain JSON."""
