"""Cache of the objects in the cluster, and the watches that fill it. The only home of kopf."""
