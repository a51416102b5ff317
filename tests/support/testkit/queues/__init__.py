"""Short forms for tests of a queue: its time, its state, each role's calls, each script's calls."""
