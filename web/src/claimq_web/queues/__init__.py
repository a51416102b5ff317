"""The queues that the page shows, and their pages."""
