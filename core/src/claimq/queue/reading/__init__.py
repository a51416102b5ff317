"""Reading a queue: numbers and workers, lists of items, one item. Changes nothing."""
