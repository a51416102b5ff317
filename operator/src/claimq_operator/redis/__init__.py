"""The servers of the queues: connections, ownership and maintenance. Knows no Deployment and no status."""
