"""What a status shows of a server that cannot be used.

A tenant chooses the address, and may let its name lead elsewhere at any time; the operator connects from its own place
in the network. A description of each failure would make the operator a scanner of ports. So a failure is described only
if the server has accepted the queue's user, or if the platform allows the host. All others have one text, and the
operator's log has the cause.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from claimq.errors import ClaimqError
from claimq.redis_store.faults import NOT_DESCRIBED, shows_login
from claimq_control.fault import Fault, described
from claimq_control.manifest import RedisSpec
from claimq_kubernetes.queue_resource import QueueResource
from claimq_operator.redis.connections import RedisConnections
from claimq_process.log_lines import LogEvent

_log = logging.getLogger(__name__)


class ServerFaults:
    """The faults of the server of one queue."""

    def __init__(self, connections: RedisConnections) -> None:
        self._connections = connections
        self._logged = ""

    def of(self, resource: QueueResource, redis: RedisSpec, error: ClaimqError | TimeoutError) -> Fault:
        """The fault to report for an error of the server. It names the field of the address and whether TLS was used:
        wrong TLS looks like an outage. A cause that is not shown is logged when it changes."""
        fault = described(error)
        if not (shows_login(error) or self._connections.are_hosts_allowed(resource.key)):
            fault = self._hidden(resource, fault)
        if fault.reason == "Full":
            return fault
        how = "with TLS" if self._connections.uses_tls(resource.key) else "without TLS"
        fix = f"the address comes from {redis.address_field} and was used {how}; correct it, or repair the server"
        return replace(fault, message=f"{fault.message}; {fix}")

    def end(self) -> None:
        """The server can be used: the next failure is logged again."""
        self._logged = ""

    def _hidden(self, resource: QueueResource, fault: Fault) -> Fault:
        if fault.message != self._logged:
            self._logged = fault.message
            _log.warning(LogEvent("server_unusable", queue=resource.full_name, error=fault.message))
        command = f"claimq doctor {resource.name} -n {resource.namespace}"
        return Fault(
            "Unreachable",
            f"{NOT_DESCRIBED}; `{command}` shows which, and so does the operator's log (event server_unusable)",
        )
