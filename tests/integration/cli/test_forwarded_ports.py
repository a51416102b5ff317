"""Connections through a forwarded port keep the name of the server: only its certificate is accepted."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

import claimq
from claimq.errors import StoreMisused, StoreUnavailable
from claimq_admin.errors import CommandError
from claimq_cli.cluster.event_loop import FindPort, ForwardingEventLoop
from claimq_cli.cluster.kubectl import Kubectl
from claimq_cli.cluster.port_forwards import PortForwards
from testkit.plugin import ServerFactory
from testkit.servers.server import Server
from testkit.waiting import PATIENCE


@pytest.fixture
def private(start_server: ServerFactory) -> Server:
    """A server with TLS; its certificate is for 127.0.0.1 and localhost."""
    return start_server("redis7", tls=True)


def ping(url: str, server: Server, find_port: FindPort) -> None:
    ca_file = str(server.certificates.ca_file) if server.certificates else None
    settings = claimq.RedisSettings(
        url, ca_file=ca_file, connect_timeout=PATIENCE, reply_timeout=PATIENCE, retry_for=0.3
    )

    async def main() -> None:
        async with claimq.connect(settings=settings) as connected:
            await connected.ping()

    with asyncio.Runner(loop_factory=lambda: ForwardingEventLoop(find_port)) as runner:
        runner.run(main())


def test_a_host_leads_to_its_forwarded_port(private: Server) -> None:
    asked: list[tuple[str, int]] = []

    async def find_port(host: str, port: int) -> int | None:
        asked.append((host, port))
        return private.port

    ping("rediss://localhost:1/0", private, find_port)
    assert asked == [("localhost", 1)]


def test_a_certificate_for_another_name_is_refused(private: Server) -> None:
    async def find_port(_host: str, _port: int) -> int | None:
        return private.port

    with pytest.raises(StoreMisused, match="certificate"):
        ping("rediss://valkey.shop.svc:6380/0", private, find_port)


def test_other_hosts_are_looked_up_as_usual(private: Server) -> None:
    async def find_port(_host: str, _port: int) -> int | None:
        return None

    ping(f"rediss://localhost:{private.port}/0", private, find_port)


def test_a_port_that_cannot_be_forwarded_is_a_server_without_an_answer(private: Server) -> None:
    async def find_port(_host: str, _port: int) -> int | None:
        raise CommandError("pods are forbidden")

    with pytest.raises(StoreUnavailable, match="no answer"):
        ping("rediss://valkey.shop.svc:6380/0", private, find_port)


async def test_a_port_that_kubectl_cannot_forward_says_why_without_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text("#!/bin/sh\necho 'error: pod is not running. Current status=Pending' >&2\n")
    kubectl.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(subprocess.Popen, "send_signal", pytest.fail)
    with pytest.raises(CommandError, match=r"status=Pending; `kubectl get pods,pvc` there shows why"):
        await PortForwards(Kubectl()).local_port("valkey.claimq.svc", 6379, "shop")
    assert not caplog.records
