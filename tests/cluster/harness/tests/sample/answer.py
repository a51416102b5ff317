"""Answers every HTTP request with what $ANSWER says and its host's name; says so on its output when it is ready."""

import os
import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        text = f"{os.environ.get('ANSWER', 'sample')} {socket.gethostname()}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


print("ready", flush=True)
ThreadingHTTPServer(("", 8080), Answer).serve_forever()
