"""Commands that bring items into a queue or out of it."""
