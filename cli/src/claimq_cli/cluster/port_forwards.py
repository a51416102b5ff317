"""Ports on loopback that `kubectl port-forward` connects to Services and pods of a cluster."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from collections import deque
from typing import cast

from claimq_admin.errors import UNAVAILABLE, CommandError
from claimq_cli.cluster.kubectl import Kubectl
from claimq_cli.cluster.places import Place, place_of
from claimq_local.processes import die_with_parent

_START_SECONDS = 15.0
_OPEN = re.compile(rb"Forwarding from 127\.0\.0\.1:(\d+) ->")


class PortForwards:
    """Runs a kubectl for each host and port that is needed, and starts it again if it has ended."""

    def __init__(self, kubectl: Kubectl) -> None:
        self._kubectl = kubectl
        self._running: dict[tuple[str, int], _Forward] = {}
        self._lock = asyncio.Lock()

    async def local_port(self, host: str, port: int, namespace: str) -> int | None:
        """The port on 127.0.0.1 that leads to ``host``, a name that pods of the namespace use. None for a host outside
        the cluster. CommandError with kubectl's message if the port cannot be opened."""
        async with self._lock:
            running = self._running.get((host, port))
            if running is not None and running.is_alive:
                return running.port
            place = place_of(host, namespace)
            if place is None:
                return None
            started = self._running[host, port] = await _Forward.start(self._kubectl, place, port)
            return started.port

    async def close(self) -> None:
        """Closes all ports."""
        running, self._running = list(self._running.values()), {}
        for forward in running:
            await forward.stop()


class _Forward:
    """One running `kubectl port-forward`. The kernel kills it when this process ends."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._output = cast("asyncio.StreamReader", process.stdout)
        self._error_output = cast("asyncio.StreamReader", process.stderr)
        self._errors: deque[bytes] = deque(maxlen=1)
        self._readers = [asyncio.create_task(self._keep_last_error())]
        self.port = 0

    @classmethod
    async def start(cls, kubectl: Kubectl, place: Place, port: int) -> _Forward:
        """Starts kubectl and waits until its port is open. CommandError if it does not open one."""
        words = ("port-forward", "--address=127.0.0.1", f"{place.kind}/{place.name}", f":{port}")
        process = await asyncio.create_subprocess_exec(
            *die_with_parent.wrapper(),
            *kubectl.command(*words, namespace=place.namespace),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for this process alone
        )
        forward = cls(process)
        try:
            async with asyncio.timeout(_START_SECONDS):
                await forward._wait_until_open()
        except BaseException as error:
            await forward.stop()
            if isinstance(error, TimeoutError):
                error = CommandError(f"it opened no port within {_START_SECONDS:.0f} s", UNAVAILABLE)
            if not isinstance(error, CommandError):
                raise
            what = f"kubectl port-forward {place.kind}/{place.name} in the namespace {place.namespace}"
            raise CommandError(f"{what}: {error}", UNAVAILABLE) from None
        return forward

    @property
    def is_alive(self) -> bool:
        """Whether kubectl is running."""
        return self._process.returncode is None

    async def _wait_until_open(self) -> None:
        while line := await self._output.readline():
            if match := _OPEN.match(line):
                self.port = int(match[1])
                self._readers.append(asyncio.create_task(_discard(self._output)))
                return
        await asyncio.wait(self._readers)
        last = self._errors[-1].decode("utf-8", "replace").strip() if self._errors else "it ended"
        advice = "; `kubectl get pods,pvc` there shows why" if "pod is not running" in last else ""
        raise CommandError(f"{last}{advice}", UNAVAILABLE)

    async def _keep_last_error(self) -> None:
        while line := await self._error_output.readline():
            self._errors.append(line)

    async def stop(self) -> None:
        """Ends kubectl, and with it the connections through its port.

        A signal by way of `Process.kill` could take the exit code away from asyncio, which would then print a warning
        (python/cpython#127049).
        """
        if self.is_alive:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        for reader in self._readers:
            reader.cancel()
        await asyncio.wait(self._readers)


async def _discard(output: asyncio.StreamReader) -> None:
    while await output.read(65536):
        pass
