"""A real Kubernetes on one Linux machine, for tests: brought up from nothing, taken down to nothing.

`python -m clusterkit up` on a shell, `clusterkit.session()` in tests. Needs root and Linux, and no container
registry. Only the standard library is used, so that any Python from 3.11 on can run it.

How it holds together, and what makes taking down complete:

- Every node is a pair of namespaces (network and mounts) that live as long as the node's first process. Nothing is
  given a name outside: no entry under /run/netns, no link on the machine, no mount that the machine can see.
- Every process of a cluster, containers too, is in the cgroup `claimq-cluster-NAME` or below it. That is how
  processes are found, by a later run as well; nothing is ever ended because of its name or a remembered number.

So a cluster is gone when its cgroup is empty and removed, and its folder is deleted.
"""

from clusterkit.cluster import Cluster
from clusterkit.errors import ApiError, CommandFailed, HarnessError
from clusterkit.sessions import at_hand, session, why_not

__all__ = ["ApiError", "Cluster", "CommandFailed", "HarnessError", "at_hand", "session", "why_not"]
