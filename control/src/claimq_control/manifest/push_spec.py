"""``spec.worker.push``: how the sidecar sends items to an app that listens for them."""

# ruff: noqa: RUF009 - the functions called for defaults return dataclasses.field()
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final

from claimq.address import variables
from claimq_control.manifest.declaring import boolean, choice, duration, integer, text
from claimq_process.duration import format_duration
from claimq_process.push import PUSH_PATH, PushMode

_PATH_FORM: Final = "a path of printable ASCII characters without spaces that begins with /"
_OWN_POD: Final = (
    "the app is only reached at the loopback address or the socket of its own pod; give port, or remove it to use the "
    "socket $CLAIMQ_PUSH_SOCKET"
)


class Delivery(StrEnum):
    """How the app gets its items."""

    PULL = "pull"
    PUSH = "push"


@dataclass(frozen=True, slots=True, kw_only=True)
class PushSpec:
    """Requests of the sidecar to the app."""

    HINTS: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("url", "host", "address", "endpoint"), _OWN_POD),
        "socket": "without port the app listens on the socket $CLAIMQ_PUSH_SOCKET; remove it",
        "concurrency": "it belongs in spec.worker.concurrency",
        "retries": "a failed item is retried by requeueLimit and retryDelay of the queue",
    }

    port: int | None = integer(
        "Port of 127.0.0.1 on which the app listens; the app reads it from $CLAIMQ_PUSH_PORT. In local mode each "
        "worker's app gets a free port instead.",
        least=1,
        most=65535,
        absent="the app listens on the Unix socket $CLAIMQ_PUSH_SOCKET",
    )
    path: str = text(
        "Path of the requests with items.", default="/", pattern=PUSH_PATH, form=_PATH_FORM, longest=512
    )
    mode: PushMode = choice(
        "Content mode of CloudEvents: `binary` has the attributes in headers and the payload as body, `structured` has "
        "both in a JSON body, `batched` has several items in a JSON array.",
        PushMode.BINARY,
    )
    batch_size: int = integer(
        "Maximum number of items in one request, with mode `batched`.", default=1, least=1, most=1000
    )
    timeout: float = duration(
        "How long a request may take, as a duration. The attempt then fails and the connection is closed.",
        default=60.0,
        least="100ms",
        most="24h",
    )
    probe_path: str | None = text(
        "Path that responds with a status from 200 to 299 while the app is ready. Items are only sent while it does.",
        pattern=PUSH_PATH,
        form=_PATH_FORM,
        longest=512,
        absent="the app is ready while it accepts connections",
    )
    retry_client_errors: bool = boolean(
        "true retries an item after a response with a status from 400 to 499, as after one from 500 to 599; with false "
        "it moves to failed.",
        default=False,
    )

    def environment(self) -> Mapping[str, str]:
        """The sidecar's variables, except for the port or socket."""
        probe = {} if self.probe_path is None else {variables.PUSH_PROBE_PATH: self.probe_path}
        return probe | {
            variables.PUSH_PATH: self.path,
            variables.PUSH_MODE: self.mode.value,
            variables.PUSH_BATCH_SIZE: str(self.batch_size),
            variables.PUSH_TIMEOUT: format_duration(self.timeout),
            variables.PUSH_RETRY_CLIENT_ERRORS: str(self.retry_client_errors).lower(),
        }
