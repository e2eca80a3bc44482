"""An identity provider in miniature: keys, key sets, tokens, and a web server that publishes them."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

ISSUER = "https://id.example.org"
AUDIENCE = "lance-gateway"


class Signer:
    """A key pair, and the tokens that it signs."""

    def __init__(self, key_id: str) -> None:
        self.key_id = key_id
        self.private = ec.generate_private_key(ec.SECP256R1())

    def public(self) -> dict[str, Any]:
        key: dict[str, Any] = jwt.algorithms.ECAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        return key | {"kid": self.key_id, "use": "sig", "alg": "ES256"}

    def key_set(self) -> str:
        return json.dumps({"keys": [self.public()]})

    def sign(self, *, headers: dict[str, Any] | None = None, **claims: Any) -> str:
        """A good token, but for what the test changes; None leaves a claim out."""
        all_claims = good_claims() | claims
        all_headers = {"kid": self.key_id} | (headers or {})
        return jwt.encode(
            {name: value for name, value in all_claims.items() if value is not None},
            self.private,
            algorithm="ES256",
            headers={name: value for name, value in all_headers.items() if value is not None},
        )


def good_claims() -> dict[str, Any]:
    now = int(time.time())
    return {
        "sub": "carol",
        "iss": ISSUER,
        "aud": AUDIENCE,
        "iat": now,
        "exp": now + 600,
        "roles": ["analyst"],
    }


class KeyServer:
    """Publishes a key set, which may change; counts who asks."""

    def __init__(self, *signers: Signer) -> None:
        self.signers = list(signers)
        self.requests = 0
        self.status = 200
        self.location: str | None = None
        self.raw: bytes | None = None
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.requests += 1
                if server.raw is not None:
                    self.wfile.write(server.raw)
                    self.close_connection = True
                    return
                body = json.dumps({"keys": [signer.public() for signer in server.signers]}).encode()
                self.send_response(server.status)
                if server.location is not None:
                    self.send_header("location", server.location)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02})
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/keys"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


@contextmanager
def publishing(*signers: Signer) -> Iterator[KeyServer]:
    server = KeyServer(*signers)
    server.start()
    try:
        yield server
    finally:
        server.stop()
