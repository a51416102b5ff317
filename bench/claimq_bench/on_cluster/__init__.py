"""On a real Kubernetes: how soon workers come, how soon a dead worker's items are back, what it costs."""
