"""Real Redis and Valkey servers: where their programs are, one server, a cluster, Sentinel, lost writes."""
