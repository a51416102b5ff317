"""The client library's clients and connections, with bounded waits and without retries of their own."""
