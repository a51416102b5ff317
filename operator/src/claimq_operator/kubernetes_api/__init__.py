"""The Kubernetes API: the requests that the operator makes, and how it reads the objects that come back."""
