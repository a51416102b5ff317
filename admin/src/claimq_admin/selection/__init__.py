"""Which items an action is for."""
