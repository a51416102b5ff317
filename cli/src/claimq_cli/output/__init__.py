"""Prints results: tables and lines for people, JSON for programs."""
