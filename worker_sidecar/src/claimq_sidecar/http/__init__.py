"""HTTP servers of the sidecar: the API on the app's Unix socket, and the probes on the health port."""
