"""The adapter to Redis and Valkey: the only place that imports the client library."""
