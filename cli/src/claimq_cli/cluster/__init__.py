"""Finds the server of a queue by its ReliableQueue, and reaches servers inside the cluster, with kubectl."""
