"""Code that the operator, the sidecar and the command line share: manifest, scaling, settings, log lines."""
