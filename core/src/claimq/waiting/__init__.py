"""Why an item waits: the reasons, and their words."""
