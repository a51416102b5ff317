"""Starts, identifies and ends processes on Linux."""
