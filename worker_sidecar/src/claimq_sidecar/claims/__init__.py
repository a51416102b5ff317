"""Claims of the app beside the sidecar: limits, leases, verdicts, sessions and the drain. Imports no HTTP."""
