"""Which cluster to use: the existing one that KUBE_CONTEXT names, or one of our own for as long as it is needed."""

import os
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager

from clusterkit import lifecycle
from clusterkit.cluster import Cluster
from clusterkit.errors import HarnessError
from clusterkit.existing_cluster import ExistingCluster
from clusterkit.images import BuiltImage
from clusterkit.layout import Layout
from clusterkit.lock import locked
from clusterkit.own_cluster import OwnCluster

_PATIENCE = 2700
"""Seconds to wait for the clusters of other runs to go, if the kernel's limits do not allow one more."""


def existing_context() -> str | None:
    """What KUBE_CONTEXT says; empty is the same as unset."""
    return os.environ.get("KUBE_CONTEXT") or None


def why_not() -> str | None:
    """Why there can be no cluster for tests here; None when there can."""
    return None if existing_context() else lifecycle.why_impossible()


def existing() -> ExistingCluster | None:
    """The cluster that KUBE_CONTEXT names; the caller closes it."""
    context = existing_context()
    return ExistingCluster(context, os.environ.get("IMAGE_REGISTRY") or None) if context else None


@contextmanager
def session(
    nodes: int = 1, *, name: str | None = None, images: Callable[[], Iterable[BuiltImage]] = tuple
) -> Generator[Cluster]:
    """A cluster for tests: brought up at the start, taken down at the end, and used by no other run in between.

    `name` defaults to $CLAIMQ_CLUSTER or "claimq-tests". When another run uses it: an error that names the run, after
    $CLAIMQ_CLUSTER_WAIT seconds (default 0). $CLAIMQ_CLUSTER_KEEP=1 leaves it up for the next time.
    Its nodes start with `images()`, which saves loading each into each node (`load_image` then finds them).
    An existing cluster (KUBE_CONTEXT) is used as it is, with the nodes that it has and without `images()`.
    """
    found = existing()
    if found is not None:
        try:
            yield found
        finally:
            found.close()
        return
    layout = Layout(name or os.environ.get("CLAIMQ_CLUSTER") or "claimq-tests")
    with locked(layout.lock, "testing with it", wait=float(os.environ.get("CLAIMQ_CLUSTER_WAIT") or 0)):
        try:
            lifecycle.up(layout, nodes, images, wait=_PATIENCE)
            yield OwnCluster(layout)
        finally:
            if os.environ.get("CLAIMQ_CLUSTER_KEEP") != "1":
                lifecycle.down(layout)


@contextmanager
def at_hand(say: Callable[[str], object]) -> Generator[tuple[Cluster, bool]]:
    """A cluster to show or to measure something on, and whether it stays: one that is up does, one that is brought up
    for this, of one node, goes at the end unless $CLAIMQ_CLUSTER_KEEP=1. It calls `say` when that happens.

    The existing one of KUBE_CONTEXT, else that of $CLAIMQ_CLUSTER (default "claimq", which make cluster-up makes).
    """
    found = existing()
    if found is not None:
        try:
            yield found, True
        finally:
            found.close()
        return
    name = os.environ.get("CLAIMQ_CLUSTER") or "claimq"
    try:
        up = OwnCluster(Layout(name))
    except HarnessError:
        say("bringing up a cluster of one node (make cluster-up keeps one for the next time)")
        with session(1, name=name) as made:
            yield made, os.environ.get("CLAIMQ_CLUSTER_KEEP") == "1"
        return
    yield up, True
