"""The start of an operator: its Lease does not wait for other requests."""

import asyncio
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest

from claimq_kubernetes.port import LEASES, Json, Kind
from claimq_operator import app
from claimq_operator.settings import OperatorSettings
from testkit.waiting import eventually, eventually_sync


class Connections:
    """Connections to an API server that responds only to requests for the Lease.

    What hangs here is what stands in line there: a request behind it on the same connections waits too.
    """

    made: list["Connections"]

    def __init__(self) -> None:
        self.is_taken = False
        self.lease: Json = {"metadata": {"name": "l", "namespace": "n", "resourceVersion": "1"}, "spec": {}}

    @classmethod
    async def connect(cls, on_request: object) -> "Connections":
        del on_request
        cls.made.append(cls())
        return cls.made[-1]

    async def get(self, kind: Kind, namespace: str, name: str) -> Json:
        del namespace, name
        return await self._answer(kind)

    async def patch(self, kind: Kind, namespace: str, name: str, changes: Json) -> Json:
        del namespace, name
        await self._answer(kind)
        self.lease = {**self.lease, "spec": changes["spec"]}
        return self.lease

    async def list(
        self,
        kind: Kind,
        namespace: str | None,
        selector: str = "",
        keep: Callable[[Json], Json] | None = None,
        *,
        fields: str = "",
    ) -> list[Json]:
        del namespace, selector, keep, fields
        await self._answer(kind)
        raise AssertionError("unreachable")

    async def _answer(self, kind: Kind) -> Json:
        if self.is_taken or kind != LEASES:
            self.is_taken = True
            await asyncio.Event().wait()
        return self.lease

    async def close(self) -> None:
        """Nothing to close."""


@asynccontextmanager
async def running_operator(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[None]:
    """The operator's whole process, which leads; ended with SIGTERM."""
    Connections.made = []
    monkeypatch.setattr(app, "KubernetesClient", Connections)
    # The lease outlasts a process that stands still for a while: an election that has lost it could not go on while the
    # event loop is blocked.
    settings = OperatorSettings(
        sidecar_image="s", identity="me", lease_duration=40.0, http_host="127.0.0.1", http_port=0
    )
    running = asyncio.ensure_future(app._run(settings))  # pyright: ignore[reportPrivateUsage]  # the whole process is what begins there
    try:
        await eventually(lambda: "me" in holders())
        yield
    finally:
        signal.raise_signal(signal.SIGTERM)
        code = await running
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().remove_signal_handler(number)
    assert code == 0
    assert holders() == ["", ""]


def holders() -> list[str]:
    """The holder of the Lease that each of the connections has written last."""
    return [one.lease["spec"].get("holderIdentity", "") for one in Connections.made]


def leases() -> list[Json]:
    """The Leases that the connections have written last."""
    return [one.lease for one in Connections.made]


async def test_the_lease_is_renewed_while_other_requests_take_all_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_operator(monkeypatch):
        await eventually(lambda: any(one.is_taken for one in Connections.made))
        renewed = leases()
        await eventually(lambda: leases() != renewed)


async def test_the_lease_is_renewed_while_the_work_on_queues_takes_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_operator(monkeypatch):
        renewed = leases()
        eventually_sync(lambda: leases() != renewed)
