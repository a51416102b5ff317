"""Whether the app is ready, by its probe, in simulated time."""

import asyncio
from pathlib import Path
from typing import cast

from claimq_sidecar.push.app_connection import AppConnection, Ended
from claimq_sidecar.push.app_connections import AppConnections
from claimq_sidecar.push.decisions import NoResponse, Response
from claimq_sidecar.push.readiness import LOST_SECONDS, PROBE_SECONDS, PROBE_TIMEOUT, Readiness
from claimq_sidecar.settings import PushSettings
from testkit.skipping_loop import run_skipping

SETTINGS = PushSettings(port=None, socket=Path("s"), probe_path="/ready")


class App:
    """Connections to an app that responds to a probe with 200, or not at all, or that refuses connections."""

    def __init__(self) -> None:
        self.responds = True
        self.refusal: OSError | None = None

    def take(self) -> None:
        return None

    async def open(self) -> "App":
        if self.refusal is not None:
            raise self.refusal
        return self

    def give_back(self, connection: AppConnection) -> None:
        del connection

    def send(self, request: bytes, timeout: float, ended: Ended) -> None:
        assert request.startswith(b"GET /ready ")
        connection, loop = cast("AppConnection", self), asyncio.get_running_loop()
        if self.responds:
            loop.call_soon(ended, connection, Response(200, {}, b""))
        else:
            loop.call_later(timeout, ended, connection, NoResponse.TIMEOUT)


def after_a_silent_probe(*, is_busy: bool) -> tuple[bool, bool]:
    """Whether an app is ready before and after a probe that it does not respond to."""

    async def run() -> tuple[bool, bool]:
        app = App()
        connections = cast("AppConnections", app)
        readiness = Readiness(SETTINGS, connections, lambda: None, lambda: is_busy)
        probing = asyncio.ensure_future(readiness.run())
        await asyncio.sleep(PROBE_SECONDS / 2)
        before, app.responds = readiness.is_ready, False
        await asyncio.sleep(PROBE_SECONDS + PROBE_TIMEOUT)
        probing.cancel()
        return before, readiness.is_ready

    return run_skipping(run())


def test_after_a_broken_connection_the_first_probe_waits_for_a_moment() -> None:
    async def run() -> list[bool]:
        readiness = Readiness(SETTINGS, cast("AppConnections", App()), lambda: None, lambda: False)
        probing = asyncio.ensure_future(readiness.run())
        await asyncio.sleep(PROBE_SECONDS)
        readiness.doubt("it broke")
        seen: list[bool] = []
        for seconds in (0.04, 0.02):
            await asyncio.sleep(seconds)
            seen.append(readiness.is_ready)
        probing.cancel()
        return seen

    assert run_skipping(run()) == [False, True]


def test_an_app_that_does_not_respond_to_its_probe_is_not_ready() -> None:
    assert after_a_silent_probe(is_busy=False) == (True, False)


def test_an_app_at_work_stays_ready_when_it_does_not_respond() -> None:
    assert after_a_silent_probe(is_busy=True) == (True, True)


def test_a_worker_is_not_ready_until_its_app_listens_and_when_it_is_away_for_long() -> None:
    async def run() -> list[str]:
        app, seen = App(), list[str]()
        settings = PushSettings(port=31836, socket=None)
        readiness = Readiness(settings, cast("AppConnections", app), lambda: None, lambda: False)
        seen.append(readiness.trouble())
        app.refusal = ConnectionRefusedError(111, "Connect call failed")
        probing = asyncio.ensure_future(readiness.run())
        await asyncio.sleep(0.01)
        seen.append(readiness.trouble())
        app.refusal = None
        await asyncio.sleep(2.0)
        seen.append(readiness.trouble())
        app.refusal = OSError("its queue of connections may be full")
        readiness.doubt("it broke")
        await asyncio.sleep(LOST_SECONDS - 0.01)
        seen.append(readiness.trouble())
        await asyncio.sleep(0.02)
        seen.append(readiness.trouble())
        probing.cancel()
        return seen

    assert run_skipping(run()) == [
        "its app is not ready: the sidecar has not connected to it yet",
        "its app does not listen on $CLAIMQ_PUSH_PORT (31836)",
        "",
        "",
        "its app is not ready: its queue of connections may be full",
    ]


def test_an_app_that_accepts_connections_and_closes_them_is_not_ready_after_a_while() -> None:
    async def run() -> list[str]:
        app, seen = App(), list[str]()
        settings = PushSettings(port=31836, socket=None)

        def changed() -> None:
            if readiness.is_ready:
                asyncio.get_running_loop().call_soon(readiness.doubt, "it closes connections at once")

        readiness = Readiness(settings, cast("AppConnections", app), changed, lambda: False)
        probing = asyncio.ensure_future(readiness.run())
        for seconds in (LOST_SECONDS - 0.5, 1.0):
            await asyncio.sleep(seconds)
            seen.append(readiness.trouble())
        probing.cancel()
        return seen

    assert run_skipping(run()) == ["", "its app is not ready: it closes connections at once"]
