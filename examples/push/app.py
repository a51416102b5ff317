"""Computes the SHA-256 of files. Each item is the path of a file; claimq sends it here as a CloudEvent."""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path

import uvicorn
from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route


async def checksum(request: Request) -> Response:
    """The response is the verdict: 2xx means done, 4xx a permanent failure, 5xx another attempt later."""
    event = from_http_event(HTTPMessage(dict(request.headers), await request.body()))
    path = str(event.get_data())
    try:
        digest = await asyncio.to_thread(sha256, path)
    except FileNotFoundError:
        return PlainTextResponse(f"there is no file {path}", status_code=422)
    except OSError as error:
        return PlainTextResponse(f"cannot read {path}: {error.strerror}", status_code=500)
    print(digest, path, flush=True)
    return Response(status_code=204)


def sha256(path: str) -> str:
    """The checksum in hexadecimal."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


async def ready(_: Request) -> Response:
    """Items arrive while this responds with 2xx."""
    return Response(status_code=204)


app = Starlette(routes=[Route("/", checksum, methods=["POST"]), Route("/ready", ready)])

if __name__ == "__main__":
    port = os.environ.get("CLAIMQ_PUSH_PORT")
    if port is not None:
        uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="warning")
    else:
        uvicorn.run(app, uds=os.environ["CLAIMQ_PUSH_SOCKET"], log_level="warning")
