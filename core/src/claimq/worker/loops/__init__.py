"""The loops over ``worker.items()``: how they share claims and verdicts, and what the end of a block means."""
