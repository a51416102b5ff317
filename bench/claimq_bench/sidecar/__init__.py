"""Items that the sidecar brings to an app: by its socket, by a stream, by requests."""
