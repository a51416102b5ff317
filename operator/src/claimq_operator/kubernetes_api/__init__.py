"""How the operator reads objects of the Kubernetes API, and its leader election."""
