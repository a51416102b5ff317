#!/usr/bin/env bash
# httptools 0.9.0 (the parser that uvicorn prefers) hands on the spaces and tabs after a header's value. HTTP says that
# they are not part of the value, and h11 0.16.0 (uvicorn's other parser) takes them off, as httptools itself does before
# the value. Expected was the same value from both. A token, a content type or an idempotency key with a space behind it
# compares equal under one parser and not under the other, without a change in the application.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet install httptools==0.9.0 h11==0.16.0
"$folder/venv/bin/python" - <<'PROGRAM'
import h11
import httptools

REQUEST = b"POST /items HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: \t a1 \t\r\nContent-Length: 0\r\n\r\n"


class Headers(dict):
    def on_header(self, name: bytes, value: bytes) -> None:
        self[name.lower()] = value


seen = Headers()
httptools.HttpRequestParser(seen).feed_data(REQUEST)
connection = h11.Connection(h11.SERVER)
connection.receive_data(REQUEST)
other = dict(connection.next_event().headers)
print("httptools", httptools.__version__, seen[b"idempotency-key"])
print("h11", h11.__version__, other[b"idempotency-key"])
assert seen[b"idempotency-key"] == b"a1 \t"
assert other[b"idempotency-key"] == b"a1"
PROGRAM
