"""The plain model of a queue, and the checks that compare a server or a history with it."""
