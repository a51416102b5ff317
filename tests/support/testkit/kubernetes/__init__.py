"""Objects of Kubernetes, an API server without a cluster, and the operator on it or in memory."""
