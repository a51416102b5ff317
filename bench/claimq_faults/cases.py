"""The rows of the table: server, settings, durability and fault, and what docs/guarantees.md lets the fault do."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from claimq import Policy
from claimq_faults.account import Account
from claimq_faults.load import LEASE
from claimq_faults.servers import Clustered, Servers, Single, Watched

FLAVOURS = {"redis7": "Redis 7", "redis8": "Redis 8.10", "valkey": "Valkey 9"}
ONE_SERVER = (
    "server killed", "power failure", "server stopped", "worker killed", "worker stopped", "memory full", "disk full",
    "clock +1 h", "clock -1 h",
)  # fmt: skip
LEVELS = ("none", "replicated", "fsynced+done")
ALL_LOST = frozenset({"lost", "repeated", "overlapping"})
"""What a loss of the last writes may do (guarantee 1)."""


@dataclass(frozen=True)
class Case:
    """One row. ``durability``: none, replicated or fsynced, and whether done waits too (``+done``)."""

    flavour: str
    shape: str
    appendfsync: str
    durability: str
    fault: str

    def cells(self) -> tuple[str, ...]:
        return (FLAVOURS[self.flavour], self.shape, self.appendfsync, self.durability, self.fault)

    def servers(self) -> Servers:
        options = {"appendonly": "yes", "appendfsync": self.appendfsync}
        if self.shape == "Sentinel":
            return Watched(self.flavour, options)
        if self.shape == "Cluster of six":
            return Clustered(self.flavour, options)
        return Single(self.flavour, options, replicas=int(self.shape == "replica"))

    def policy(self) -> Policy:
        level, _, done = self.durability.partition("+")
        return Policy(
            busy_expiry=LEASE,
            durability="primary" if level == "none" else level,
            durable_done=bool(done),
            appendfsync_always=self.appendfsync == "always",
        )

    @property
    def is_slow(self) -> bool:
        """Whether an enqueue takes up to a second: the servers fsync once a second, and it waits for that."""
        return self.appendfsync == "everysec" and self.durability.startswith("fsynced")

    def allowed(self) -> frozenset[str]:
        """The columns that may be other than 0."""
        level, _, done = self.durability.partition("+")
        if (
            self.fault == "worker stopped"
        ):  # guarantee 6: a worker whose lease has expired may still be working
            return frozenset({"overlapping"})
        if self.fault in ("failover", "handover"):
            is_lossless = self.fault == "handover" and self.shape == "Cluster of six"
        else:
            is_lossless = self.fault != "power failure" or self.appendfsync == "always"
        if is_lossless:
            return frozenset()
        kept = {"fsynced"} if self.fault == "power failure" else {"replicated", "fsynced"}
        if level not in kept:
            return ALL_LOST
        return frozenset({"overlapping"} if done else {"repeated", "overlapping"})

    def broken(self, account: Account) -> list[str]:
        """The promises that the run has broken."""
        columns = ("lost", "repeated", "overlapping", "out_of_order", "left")
        return [name for name in columns if getattr(account, name) and name not in self.allowed()]


def cases() -> Iterator[Case]:
    """All rows."""
    for flavour in FLAVOURS:
        yield from (Case(flavour, "single", "always", "none", fault) for fault in ONE_SERVER)
        yield from (
            Case(flavour, "single", "everysec", "none", fault) for fault in ("power failure", "disk full")
        )
        # Redis 7.0 has no WAITAOF, and Valkey refuses fsynced without `always` (docs/decisions/durability.md).
        always = LEVELS[:2] if flavour == "redis7" else LEVELS
        yield from (Case(flavour, "replica", "always", level, "power failure") for level in always)
        everysec = LEVELS if flavour == "redis8" else LEVELS[:2]
        yield from (Case(flavour, "replica", "everysec", level, "power failure") for level in everysec)
        for shape, fault in product(("Sentinel", "Cluster of six"), ("failover", "handover")):
            yield from (
                Case(flavour, shape, "always", one, fault)
                for one in ("none", "replicated", "replicated+done")
            )
        yield from (
            Case(flavour, "Cluster of six", "always", "none", one) for one in ("server killed", "slot moved")
        )


QUICK = (
    Case("valkey", "single", "always", "none", "power failure"),
    Case("valkey", "single", "everysec", "none", "power failure"),
    Case("valkey", "single", "always", "none", "worker killed"),
    Case("valkey", "Sentinel", "always", "replicated", "failover"),
    Case("redis8", "Cluster of six", "always", "replicated", "failover"),
)
