"""Shows the state of local mode, live on a terminal or as lines."""
