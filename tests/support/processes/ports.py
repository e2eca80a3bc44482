"""Free ports for servers that can't listen on port 0."""

import itertools
import os
import socket

# Below the ports that the kernel gives to clients and to whoever asks for port 0.
_FIRST = 20_000
_EACH = 1_000
_WORKERS = 10

_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_offsets = itertools.count(os.getpid() % _EACH)


def find_free_port() -> int:
    """Return a free port of 127.0.0.1 that no other test process gets."""
    while True:
        port = _FIRST + _EACH * (_worker % _WORKERS) + next(_offsets) % _EACH
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
