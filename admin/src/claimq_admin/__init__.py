"""The service that acts on queues: reads, selects, changes and records. Commands and the web page are its faces."""
