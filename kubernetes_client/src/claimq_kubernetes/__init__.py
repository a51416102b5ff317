"""The client of the Kubernetes API, and its objects as values of claimq. Knows no kopf."""
