"""What the operator, the sidecar and the command line share beside the queue library: the manifest of a ReliableQueue,
the scaling rule, settings from the environment, and the form of log lines."""
