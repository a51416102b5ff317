"""The processes of a worker: the app and its sidecar."""
