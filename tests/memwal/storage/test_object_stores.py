"""Roots in Google's and Azure's object stores: which requests are sent, with which options.

A server of the test's own stands for the services: it keeps objects, and refuses conditional puts as they do.
"""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

import pytest

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.memwal.storage.files import Storage

KEY = "c2VjcmV0IGtleQ=="


@dataclass
class Service:
    """Objects by path, and what was asked."""

    url: str
    objects: dict[str, bytes] = field(default_factory=dict)
    asked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)


@pytest.fixture
def service() -> Iterator[Service]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def answer(self, status: int, body: bytes = b"") -> None:
            self.send_response(status)
            self.send_header("ETag", '"tag"')
            self.send_header("Last-Modified", "Wed, 25 Nov 2026 12:00:00 GMT")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(b"" if self.command == "HEAD" else body)

        def note(self) -> str:
            headers = {name.lower(): value for name, value in self.headers.items()}
            path = self.path.partition("?")[0]
            made.asked.append((self.command, path, headers))
            return path

        def do_PUT(self) -> None:
            path, body = self.note(), self.rfile.read(int(self.headers["Content-Length"]))
            is_conditional = "If-None-Match" in self.headers or "x-goog-if-generation-match" in self.headers
            if is_conditional and path in made.objects:
                self.answer(412 if "x-goog-if-generation-match" in self.headers else 409)
                return
            made.objects[path] = body
            self.answer(201)

        def do_GET(self) -> None:
            body = made.objects.get(self.note())
            self.answer(404 if body is None else 200, body or b"")

        def do_HEAD(self) -> None:
            self.do_GET()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made = Service(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield made
    server.shutdown()
    thread.join()
    server.server_close()


def build_options(scheme: str, url: str) -> dict[str, str]:
    if scheme == "gs":
        account = {"gcs_base_url": url, "disable_oauth": True}
        account |= dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
        return {"google_service_account_key": json.dumps(account), "allow_http": "true"}
    return {
        "azure_storage_account_name": "acct",
        "azure_storage_account_key": KEY,
        "azure_storage_endpoint": f"{url}/acct",
        "allow_http": "true",
    }


@pytest.mark.parametrize(
    ("scheme", "path", "condition"),
    [
        ("gs", "/lake/tables/a b.txt", ("x-goog-if-generation-match", "0")),
        ("az", "/acct/lake/tables/a b.txt", ("if-none-match", "*")),
    ],
)
def test_objects_are_written_once(
    service: Service, scheme: str, path: str, condition: tuple[str, str]
) -> None:
    storage = Storage.open(f"{scheme}://lake/tables/", build_options(scheme, service.url))
    assert (storage.uri, storage.child("t.lance").uri) == (
        f"{scheme}://lake/tables",
        f"{scheme}://lake/tables/t.lance",
    )
    assert storage.put_if_absent("a b.txt", b"first")
    method, asked, headers = service.asked[-1]
    assert (method, unquote(asked), headers[condition[0]]) == ("PUT", path, condition[1])
    assert not storage.put_if_absent("a b.txt", b"second")
    assert storage.read("a b.txt") == b"first"
    storage.put("a b.txt", b"third")
    assert (storage.read("a b.txt"), storage.exists("a b.txt", "nothing")) == (b"third", (True, False))
    with pytest.raises(FileNotFoundError):
        storage.read("nothing")


@pytest.mark.parametrize(
    ("scheme", "service_name"), [("gs", "Google Cloud Storage"), ("az", "Azure Blob Storage")]
)
def test_an_option_that_does_not_exist_is_named(scheme: str, service_name: str) -> None:
    options = {**build_options(scheme, "http://127.0.0.1:1"), "colour": "green"}
    with pytest.raises(InvalidInputError, match=f"{scheme}://lake on {service_name}: .*colour"):
        Storage.open(f"{scheme}://lake", options)
