"""Namespaces without names: each lives as long as its first process, a sleeper that is marked like all others.

A *space* is a network namespace and a mount namespace. The switch is one with a bridge, the control plane and every
node are one each, joined to the bridge by a pair of links. No address of theirs is reachable from the machine.
"""

import ctypes
import os
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from clusterkit.commands import eventually, run
from clusterkit.errors import HarnessError
from clusterkit.layout import SERVICE_RANGE, Node
from clusterkit.processes import Processes

_CLONE_NEWNET = 0x40000000
_BRIDGE = "bridge"
SWITCH = "switch"


@dataclass(frozen=True)
class Space:
    """The namespaces called `name` of one cluster."""

    name: str
    processes: Processes

    def create(self) -> None:
        holder = ["unshare", "--net", "--mount", "--propagation", "private", "sleep", "infinity"]
        self.processes.start(f"{self.name}.space", holder)
        ours = (str(Path("/proc/self/ns/net").readlink()), str(Path("/proc/self/ns/mnt").readlink()))
        eventually(
            f"the namespaces of {self.name} are there",
            lambda: all(there != own for there, own in zip(self._names(), ours, strict=True)),
            every=0.01,
            why_not=lambda: self.processes.tail(f"{self.name}.space"),
        )
        self.run("ip", "link", "set", "lo", "up")

    def entering(self, *, mounts: bool = True) -> list[str]:
        """The words to put before a command so that it runs in here; without `mounts` it sees the machine's files."""
        pid = self.processes.pid(f"{self.name}.space")
        # Not `ip netns exec`: that mounts another /sys over the machine's, and the cgroups are gone from view.
        return [
            "nsenter",
            f"--net=/proc/{pid}/ns/net",
            *([f"--mount=/proc/{pid}/ns/mnt"] if mounts else []),
            "--",
        ]

    def run(self, *argv: str, mounts: bool = False) -> str:
        """Run a command in here to its end and return what it printed."""
        return run([*self.entering(mounts=mounts), *argv]).stdout

    def script(self, text: str) -> None:
        """Run a shell script in here that stops at its first failure."""
        run([*self.entering(), "sh", "-eu", "-c", text])

    def connect(self, host: str, port: int, timeout: float = 5) -> socket.socket:
        """A TCP connection opened in here, usable by this process. OSError when there is no answer."""
        made: list[socket.socket | OSError] = []

        # A socket stays in the network that its thread was in when it made it; the thread then ends.
        def open_it() -> None:
            try:
                with Path(f"/proc/{self.processes.pid(f'{self.name}.space')}/ns/net").open("rb") as network:
                    if ctypes.CDLL(None, use_errno=True).setns(network.fileno(), _CLONE_NEWNET):
                        raise OSError(ctypes.get_errno(), "setns: " + os.strerror(ctypes.get_errno()))
                made.append(socket.create_connection((host, port), timeout))
            except OSError as error:
                made.append(error)
            except HarnessError as error:
                made.append(ConnectionError(str(error)))

        thread = threading.Thread(target=open_it, daemon=True)
        thread.start()
        thread.join()
        if isinstance(made[0], OSError):
            raise made[0]
        return made[0]

    def _names(self) -> tuple[str, str]:
        pid = self.processes.pid(f"{self.name}.space")
        return str(Path(f"/proc/{pid}/ns/net").readlink()), str(Path(f"/proc/{pid}/ns/mnt").readlink())


def create_switch(processes: Processes) -> None:
    """The bridge that all nodes are joined to."""
    switch = Space(SWITCH, processes)
    switch.create()
    switch.run("ip", "link", "add", _BRIDGE, "type", "bridge")
    switch.run("ip", "link", "set", _BRIDGE, "up")


def join_switch(processes: Processes, joining: Node, everyone: Sequence[Node]) -> None:
    """Give a node's space its address and the ways to every other node's pods."""
    switch, space = Space(SWITCH, processes), Space(joining.name, processes)
    pid = processes.pid(f"{joining.name}.space")
    port = joining.name
    switch.run("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
    switch.run("ip", "link", "set", port, "master", _BRIDGE, "up")
    space.run("ip", "address", "add", f"{joining.address}/24", "dev", "eth0")
    space.run("ip", "link", "set", "eth0", "up")
    for other in everyone:
        if other.number and other != joining:
            space.run("ip", "route", "add", other.pod_range, "via", other.address)
    # Services have no address anywhere: kube-proxy turns what goes there to a pod, if there is a way to begin with.
    space.run("ip", "route", "add", SERVICE_RANGE, "dev", "eth0")
    space.script("echo 1 > /proc/sys/net/ipv4/ip_forward")


def set_link(processes: Processes, of: Node, *, up: bool) -> None:
    """Take the node's link away at the switch, or give it back. The node keeps its addresses and its ways."""
    Space(SWITCH, processes).run("ip", "link", "set", of.name, "up" if up else "down")


def link_is_up(processes: Processes, of: Node) -> bool:
    """Whether the node's link is there."""
    shown = Space(SWITCH, processes).run("ip", "-o", "link", "show", of.name)
    return "UP" in shown.partition("<")[2].partition(">")[0].split(",")
