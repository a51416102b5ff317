"""Settings from environment variables. They are read once, and all problems are reported together."""

from __future__ import annotations

import os
import re
import secrets
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from claimq.address import variables
from claimq.address.redis_url import parse_url
from claimq.address.server_parts import SERVER_PARTS, URL
from claimq.codec import check_name, name_part
from claimq.redis_store.default_server import settings_from, url_in
from claimq.redis_store.settings import RedisSettings
from claimq_process.environment import Environment
from claimq_process.log_lines import LEVELS
from claimq_process.names import HEALTH_PORT, SOCKET, SOCKET_MODE
from claimq_process.push import PUSH_PATH, PushMode
from claimq_sidecar.memory import LEAST_MEMORY, Allowance

_LONGEST_SOCKET_PATH = 107
_PUSH_VARIABLES = sorted(name for name in variables.ALL if name.startswith("CLAIMQ_PUSH_"))


@dataclass(frozen=True, slots=True)
class RedisSource:
    """How to reach the server. Files are read again for each new connection, so secrets can be rotated."""

    variables: Mapping[str, str]
    """Those of :data:`claimq.address.server_parts.SERVER_PARTS`."""

    def __repr__(self) -> str:
        return "RedisSource(...)"

    def settings(self, **options: Any) -> RedisSettings:
        """The settings of a connection, with the present content of the files. Raises ValueError."""
        return settings_from(self.variables, **options)


@dataclass(frozen=True, slots=True)
class PushSettings:
    """How items are sent to an app that listens for them. ``timeout`` in seconds."""

    port: int | None
    """CLAIMQ_PUSH_PORT (none): push delivery to this port of the app on 127.0.0.1."""
    socket: Path | None
    """CLAIMQ_PUSH_SOCKET (none): push delivery to this Unix socket of the app."""
    path: str = "/"
    """CLAIMQ_PUSH_PATH: path of the requests with items."""
    mode: PushMode = PushMode.BINARY
    """CLAIMQ_PUSH_MODE: content mode of CloudEvents: binary, structured or batched."""
    batch_size: int = 1
    """CLAIMQ_PUSH_BATCH_SIZE: maximum number of items in a request, in batched mode."""
    timeout: float = 60.0
    """CLAIMQ_PUSH_TIMEOUT: how long a request may take."""
    probe_path: str | None = None
    """CLAIMQ_PUSH_PROBE_PATH: path that responds with 2xx while the app is ready. Without it, the app is ready
    while it accepts connections."""
    retries_client_errors: bool = False
    """CLAIMQ_PUSH_RETRY_CLIENT_ERRORS: whether an item is retried after a status from 400 to 499."""

    @property
    def address(self) -> str:
        """Where the app listens, for messages."""
        return f"127.0.0.1:{self.port}" if self.socket is None else str(self.socket)

    @property
    def variable(self) -> str:
        """The app's variable with the address, and its value."""
        if self.socket is None:
            return f"${variables.PUSH_PORT} ({self.port})"
        return f"${variables.PUSH_SOCKET} ({self.socket})"


@dataclass(frozen=True, slots=True)
class SidecarSettings:
    """Settings of one sidecar. Durations in seconds, sizes in bytes."""

    redis: RedisSource
    """CLAIMQ_REDIS_URL or CLAIMQ_REDIS_URL_FILE, and the CLAIMQ_REDIS_ variables beside it."""
    queue: str
    """CLAIMQ_QUEUE: the queue to serve."""
    worker: str
    """CLAIMQ_WORKER (host name and a random part): the worker's name. Two running sidecars must not share it.

    A pod has CLAIMQ_WORKER_PREFIX instead. The sidecar adds its start time in milliseconds to that prefix, by the same
    clock as the kubelet's."""
    socket: Path
    """CLAIMQ_SOCKET (`/run/claimq/claimq.sock`): path of the Unix socket for the app.

    A missing directory is created (0770)."""
    socket_mode: int = SOCKET_MODE
    """CLAIMQ_SOCKET_MODE: permissions of the socket."""
    health_host: str = "127.0.0.1"
    """CLAIMQ_HEALTH_HOST: listen address for probes, metrics and drain."""
    health_port: int = HEALTH_PORT
    """CLAIMQ_HEALTH_PORT: port of the health host. With 0 a free port is chosen; the log (`event=serving`) has it."""
    lifecycle_key: str | None = None
    """CLAIMQ_LIFECYCLE_KEY: the key that a drain request on the health port needs. Without it all are refused."""
    concurrency: int | None = None
    """CLAIMQ_CONCURRENCY (no limit; 1 with push delivery): maximum number of claims in flight, 1 to 1000."""
    claim_ahead: int = 100
    """CLAIMQ_CLAIM_AHEAD: maximum number of items that an app has received and has not begun, 0 to 500.

    With 0, with `durableDone` and with a rate in `limits`, nothing is claimed ahead."""
    push: PushSettings | None = None
    """The CLAIMQ_PUSH_ variables; None: the app claims its items itself."""
    drain_timeout: float = 25.0
    """CLAIMQ_DRAIN_TIMEOUT: how long a drain waits for the claims in flight."""
    leaves_at_sigterm: bool = False
    """CLAIMQ_LEAVE_AT_SIGTERM: with SIGTERM it returns its claims and exits without waiting. In a pod SIGTERM arrives
    when the app has exited, or when the kubelet is about to kill both."""
    processing_timeout: float | None = None
    """CLAIMQ_PROCESSING_TIMEOUT: a claim in flight for longer is not renewed, and `/worker/livez` returns 503."""
    memory: int = 256 * 1024 * 1024
    """CLAIMQ_MEMORY: the sidecar's memory limit, at least `72Mi`. Request bodies and responses stay within it.

    In a pod it is the container's limit when the sidecar starts."""
    max_body: int = 16 * 1024 * 1024
    """CLAIMQ_MAX_BODY: maximum size of a request body. Larger ones are refused unread.

    At most a twelfth of CLAIMQ_MEMORY less 64Mi, which is also the default where it is smaller."""
    log_level: str = "info"
    """CLAIMQ_LOG_LEVEL: least level of a logged line: debug, info, warn or error."""

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> SidecarSettings:
        """Reads the CLAIMQ_ variables. Raises InvalidSettings with all problems."""
        reader = _Reader(environ)
        push = reader.push()
        settings = cls(
            redis=reader.redis(),
            queue=reader.name(variables.QUEUE, "queue", None),
            worker=reader.name(
                variables.WORKER, "worker", _default_worker(reader.text(variables.WORKER_PREFIX))
            ),
            socket=reader.socket_path(),
            socket_mode=reader.mode(variables.SOCKET_MODE, SOCKET_MODE),
            health_host=reader.text(variables.HEALTH_HOST) or "127.0.0.1",
            health_port=reader.port(variables.HEALTH_PORT, HEALTH_PORT),
            lifecycle_key=reader.text(variables.LIFECYCLE_KEY),
            concurrency=reader.whole(variables.CONCURRENCY, None if push is None else 1, least=1, most=1000),
            claim_ahead=reader.whole(variables.CLAIM_AHEAD, 100, least=0, most=500),
            push=push,
            drain_timeout=reader.duration(variables.DRAIN_TIMEOUT, 25.0),
            leaves_at_sigterm=reader.boolean(variables.LEAVE_AT_SIGTERM, default=False),
            processing_timeout=reader.duration(variables.PROCESSING_TIMEOUT, None, at_least=0.001),
            memory=(memory := reader.size(variables.MEMORY, 256 * 1024 * 1024, least=LEAST_MEMORY)),
            max_body=reader.max_body(memory),
            log_level=reader.choice(variables.LOG_LEVEL, tuple(LEVELS), "info"),
        )
        reader.end()
        return settings


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """CLAIMQ_ variables that the sidecar does not know, perhaps misspelt. Skips those of Kubernetes Services."""
    return sorted(
        name
        for name in environ
        if name.startswith("CLAIMQ_")
        and name not in variables.ALL
        and "_SERVICE_" not in name
        and "_PORT" not in name
    )


class _Reader(Environment):
    """Reads the variables that only the sidecar has."""

    def name(self, variable: str, kind: str, default: str | None) -> str:
        text = self.text(variable) or default
        if text is None:
            self.bad(variable, f"is not set; give the {kind}'s name")
            return ""
        try:
            return check_name(kind, text)
        except ValueError as error:
            self.bad(variable, str(error))
            return ""

    def socket_path(self, name: str = variables.SOCKET) -> Path:
        path = Path(self.text(name) or SOCKET)
        size = len(str(path).encode())
        if size > _LONGEST_SOCKET_PATH:
            self.bad(name, f"has {size} bytes; the path of a socket has at most {_LONGEST_SOCKET_PATH}")
        if not path.is_absolute():
            self.bad(name, f'is "{path}"; give an absolute path')
        return path

    def push(self) -> PushSettings | None:
        port, has_socket = (
            self.port(variables.PUSH_PORT, 0) or None,
            self.text(variables.PUSH_SOCKET) is not None,
        )
        socket_path = self.socket_path(variables.PUSH_SOCKET) if has_socket else None
        names = [name for name in _PUSH_VARIABLES if self.text(name) is not None]
        if variables.PUSH_PORT in names and variables.PUSH_SOCKET in names:
            self.bad(variables.PUSH_SOCKET, f"is set beside {variables.PUSH_PORT}; give one of them")
        elif names and not port and not socket_path and not self.problems:
            where = f"give the app's port in {variables.PUSH_PORT}, or its socket in {variables.PUSH_SOCKET}"
            self.bad(names[0], f"does nothing without the address of the app; {where}")
        batch_size = self.whole(variables.PUSH_BATCH_SIZE, 1, least=1, most=1000)
        mode = PushMode(self.choice(variables.PUSH_MODE, tuple(PushMode), PushMode.BINARY))
        if batch_size > 1 and mode is not PushMode.BATCHED:
            self.bad(
                variables.PUSH_BATCH_SIZE,
                f"is {batch_size}, but {variables.PUSH_MODE} is {mode}; give {PushMode.BATCHED}, or omit the size",
            )
        settings = PushSettings(
            port,
            socket_path,
            path=self._push_path(variables.PUSH_PATH) or "/",
            mode=mode,
            batch_size=batch_size,
            timeout=self.duration(variables.PUSH_TIMEOUT, 60.0, at_least=0.001),
            probe_path=self._push_path(variables.PUSH_PROBE_PATH),
            retries_client_errors=self.boolean(variables.PUSH_RETRY_CLIENT_ERRORS, default=False),
        )
        return settings if port or socket_path else None

    def _push_path(self, name: str) -> str | None:
        text = self.text(name)
        if text is not None and not re.fullmatch(PUSH_PATH, text):
            self.bad(name, f'is "{text}"; give a path of printable ASCII characters that begins with /')
        return text

    def mode(self, name: str, default: int) -> int:
        text = self.text(name)
        if text is None:
            return default
        if text.isascii() and text.isdigit() and len(text) <= 4 and set(text) <= set("01234567"):
            return int(text, 8) & 0o777
        self.bad(name, f'is "{text}"; give permissions in octal, for instance 0660')
        return default

    def max_body(self, memory: int) -> int:
        allowance = Allowance(memory)
        usual_body = self.size(variables.MAX_BODY, allowance.usual_body, least="1Ki")
        if usual_body > allowance.longest_body:
            self.bad(
                variables.MAX_BODY,
                f"is {usual_body} bytes; with {variables.MEMORY}={memory} a body has at most {allowance.longest_body}: "
                "lower it, or raise the memory limit",
            )
        return usual_body

    def redis(self) -> RedisSource:
        names = [name for part in SERVER_PARTS for name in (part.variable, part.file_variable)]
        source = RedisSource({name: text for name in names if (text := self.text(name))})
        for part in SERVER_PARTS:
            if part.variable in source.variables and part.file_variable in source.variables:
                self.bad(part.file_variable, f"is set beside {part.variable}; give one of them")
            self._readable(part.variable if part.is_path else part.file_variable)
        self.boolean(variables.REDIS_CLUSTER, default=False)
        if (variables.REDIS_CERT_FILE in source.variables) != (variables.REDIS_KEY_FILE in source.variables):
            self.bad(
                variables.REDIS_CERT_FILE,
                f"goes together with {variables.REDIS_KEY_FILE}; give both or neither",
            )
        if not any(problem.startswith(URL.variable) for problem in self.problems):
            self._check_url(source)
        return source

    def _check_url(self, source: RedisSource) -> None:
        variable = URL.file_variable if URL.file_variable in source.variables else URL.variable
        try:
            url = url_in(source.variables)
            if not url:
                self.bad(variable, f"is not set; give the server's URL, or its file in {URL.file_variable}")
                return
            parse_url(url)
            if not self.problems:
                source.settings()
        except ValueError as error:
            self.bad(variable, str(error))

    def _readable(self, name: str) -> None:
        path = self.text(name)
        try:
            Path(path or os.devnull).read_bytes()
        except OSError as error:
            self.bad(
                name, f'the file "{path}" cannot be read ({error.strerror}); mount it or correct the path'
            )


def _default_worker(prefix: str | None) -> str:
    if prefix is not None:
        started = time.time_ns() // 1_000_000  # noqa: TID251 - compared with the kubelet's times
        return f"{prefix}.{started}"
    return f"{name_part(socket.gethostname())}-{secrets.token_hex(4)}"
