"""Health on the second port."""

import json
import shutil
import socket
from pathlib import Path

import pytest

from lance_gateway.gateway.observability import http as readiness_module
from lance_gateway.memwal.errors import UnavailableError
from tests.gateway.observability.conftest import Watch, Watched


def test_a_gateway_that_serves_is_alive_and_ready(watched: Watched) -> None:
    assert watched.get("/livez") == (200, "ok\n")
    assert watched.get("/readyz") == (200, "ok\n")
    status, body = watched.get("/healthz")
    assert (status, json.loads(body)) == (200, {"status": "SERVING", "reasons": []})


def test_a_gateway_that_stops_is_alive_and_not_ready(watched: Watched) -> None:
    watched.observability.readiness.drain()
    assert watched.get("/livez") == (200, "ok\n")
    assert watched.get("/readyz") == (503, "the gateway is stopping\n")
    status, body = watched.get("/healthz?verbose")
    assert (status, json.loads(body)["status"]) == (503, "NOT_SERVING")


def test_a_root_that_is_gone_is_the_reason(
    watch: Watch, lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness_module, "_KEPT_SECONDS", 0.0)
    root = tmp_path / "root"
    shutil.copytree(lake, root)
    watched = watch(root)
    assert watched.get("/readyz")[0] == 200
    shutil.rmtree(root)
    assert watched.get("/readyz") == (503, "the root does not exist\n")
    root.mkdir()
    assert watched.get("/readyz")[0] == 200


def test_other_paths_and_half_requests_do_no_harm(watched: Watched) -> None:
    status, body = watched.get("/")
    assert status == 404
    assert "/metrics" in body
    assert watched.observability.http is not None
    with socket.create_connection(("127.0.0.1", watched.observability.http.port)) as half:
        half.sendall(b"GET /metr")
        assert watched.get("/livez")[0] == 200


def test_a_port_that_is_taken_is_named(watch: Watch, lake: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UnavailableError, match=rf"cannot listen on 127\.0\.0\.1:{port} .*--http-port"):
            watch(lake, http_port=port)


def test_it_can_be_turned_off(watch: Watch, lake: Path) -> None:
    assert watch(lake, http_port="off").observability.http is None
