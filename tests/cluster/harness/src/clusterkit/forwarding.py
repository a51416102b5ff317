"""A port of this machine that leads into a cluster's network, for clients that know nothing of namespaces."""

import contextlib
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager


@contextmanager
def forwarded(connect: Callable[[], socket.socket]) -> Generator[int]:
    """A port on 127.0.0.1; every connection to it is one of `connect()`'s, and is closed when that one fails."""
    listener = socket.create_server(("127.0.0.1", 0))
    open_ones: set[socket.socket] = set()

    def serve(client: socket.socket) -> None:
        try:
            server = connect()
        except OSError:
            client.close()
            return
        server.settimeout(None)
        open_ones.update((client, server))
        back = threading.Thread(target=_pump, args=(server, client), daemon=True)
        back.start()
        _pump(client, server)
        back.join()
        for end in (client, server):
            end.close()
            open_ones.discard(end)

    def accept() -> None:
        with contextlib.suppress(OSError):  # closed at the end
            while True:
                client, _ = listener.accept()
                threading.Thread(target=serve, args=(client,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        # A blocked accept() isn't woken by close() alone.
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for end in tuple(open_ones):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def _pump(source: socket.socket, sink: socket.socket) -> None:
    """Pass everything on, and the end as well: one side may stop sending and go on reading."""
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
