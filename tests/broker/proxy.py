"""A TCP proxy in front of the broker whose link can be cut, without closing any connection."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from pathlib import Path

# A second listener of the broker, which sends its clients to the proxy.
PROPERTIES = """
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller},PROXIED://127.0.0.1:{proxied}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},PROXIED://127.0.0.1:{proxy}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT
"""

FETCH = b"\0\1"  # the kind of a request for messages


class Proxy:
    """Forwards connections to a port of this machine. While the link is cut, nothing arrives on either side.

    Connections that were open when the link was cut may be lost: nothing arrives on them afterwards either, but they
    are not closed. This happens if a router on the way has forgotten them.
    """

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._flows = threading.Event()
        self._flows.set()
        self._closed = threading.Event()
        self._generation = 0  # connections of earlier generations are lost
        self._lost_topic: bytes | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._flows.clear()

    def heal(self, *, lose_connections: bool = False) -> None:
        self._generation += lose_connections
        self._flows.set()

    def lose_fetches(self, topic: str | None) -> None:
        """Lose each connection on which a client fetches messages of a topic, until this is called with None."""
        self._lost_topic = topic.encode() if topic else None

    def close(self) -> None:
        self._closed.set()
        self._flows.set()
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        self._flows.wait()
        try:
            server = socket.create_connection(("127.0.0.1", self._target_port))
        except OSError:
            client.close()
            return
        generation = self._generation
        threading.Thread(target=self._forward, args=(client, server, generation), daemon=True).start()
        self._forward(server, client, generation)

    def _forward(self, source: socket.socket, sink: socket.socket, generation: int) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                self._flows.wait()
                if generation != self._generation or self._is_lost(data):
                    self._closed.wait()
                    break
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _is_lost(self, data: bytes) -> bool:
        # A request begins with its length (4 bytes) and its kind (2 bytes).
        return self._lost_topic is not None and data[4:6] == FETCH and self._lost_topic in data


def write_properties(path: Path, port: int, proxied_port: int, proxy: Proxy) -> Path:
    """Write the properties of a broker at `port` whose listener at `proxied_port` is reached through the proxy."""
    path.write_text(PROPERTIES.format(port=port, controller=port + 1, proxied=proxied_port, proxy=proxy.port))
    return path
