"""The queues of ReliableQueues: their servers, their owners and what their namespaces may use."""
