"""Python's states of gRPC's threads: kept while a thread lives, deleted some time after it has ended."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyarrow import flight

from gateway.protocol.native_threads import THREADS, ThreadStates
from gateway.server import GatewayServer
from protos import flight_sql_pb2 as sql
from tests.gateway import rpc

_KNOWN = sys.version_info[:2] == (3, 11) and sys.platform == "linux"
_CLIENTS = 16
_CALLS = 100


def ask_often(gateway: GatewayServer) -> None:
    """Many clients at once: gRPC starts threads and ends them."""

    def ask(_: int) -> None:
        with flight.connect(f"grpc://127.0.0.1:{gateway.port}") as client:
            for _ in range(_CALLS):
                rpc.info(client, sql.CommandStatementQuery(query="SELECT 1"))

    with ThreadPoolExecutor(_CLIENTS) as pool:
        list(pool.map(ask, range(_CLIENTS)))


@pytest.mark.skipif(not _KNOWN, reason="states are kept in CPython 3.11 on Linux only")
def test_states_of_threads_that_ended_do_not_pile_up(gateway: GatewayServer) -> None:
    counts = []
    for _ in range(5):
        ask_often(gateway)
        counts.append(len(THREADS))
    # About twice as many as there were threads at once, and thousands have come and gone.
    assert 0 < max(counts) < 1000


@pytest.mark.skipif(not _KNOWN, reason="states are kept in CPython 3.11 on Linux only")
def test_states_of_threads_that_ended_are_deleted_by_others() -> None:
    """In a process of its own, which ends well: 300 threads that Python did not start come, and end."""
    program = """
import ctypes
from gateway.protocol.native_threads import ThreadStates
states, libc = ThreadStates(), ctypes.CDLL(None)
@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
def visit(_):
    states.keep()
    states.keep()
for _ in range(300):
    thread = ctypes.c_ulong()
    assert libc.pthread_create(ctypes.byref(thread), None, visit, None) == 0
    assert libc.pthread_join(thread, None) == 0
print(len(states))
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert 0 < int(ended.stdout) <= 65


def test_elsewhere_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 12, 0))
    states = ThreadStates()
    states.keep()
    assert len(states) == 0
