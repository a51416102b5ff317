"""Random operations for the tests of properties, and how these search."""
