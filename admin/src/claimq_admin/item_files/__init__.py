"""Items in files: lines, JSON and CSV."""
