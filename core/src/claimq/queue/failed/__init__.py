"""Failed items: the operations on them, and walks through them."""
