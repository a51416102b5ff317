"""Decides about queues: the manifest, the number of workers, ownership. Knows no Kubernetes and runs nothing."""
