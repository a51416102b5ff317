"""Forms of the page that change items and queues."""
