"""An S3 store that answers as slowly as S3: moto, with a wait before each request.

`python -m benchmarks.servers.slow_store` prints the URL and serves until terminated. A request that writes
waits 20 ms, any other 10 ms: what S3 takes for small objects within its region. Bytes cost nothing.
"""

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

WRITE_MS = 20
READ_MS = 10
BUCKET = "tables"

_Application = Callable[[dict[str, Any], Any], Iterable[bytes]]


def build_options(url: str) -> dict[str, str]:
    """Storage options of the store at `url`, as Lance names them."""
    return {
        "aws_endpoint": url,
        "aws_region": "us-east-1",
        "aws_access_key_id": "bench",
        "aws_secret_access_key": "bench",
        "allow_http": "true",
    }


def add_delay(application: _Application) -> _Application:
    """Wait before each request."""

    def wait(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:  # noqa: ANN401 - WSGI
        milliseconds = WRITE_MS if environ["REQUEST_METHOD"] in {"PUT", "POST"} else READ_MS
        time.sleep(milliseconds / 1e3)
        return application(environ, start_response)

    return wait


def main() -> None:
    """Make the bucket, print the location, serve until terminated."""
    # They take seconds, which who asks for the options alone need not wait for.
    import boto3  # type: ignore[import-untyped]  # noqa: PLC0415
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app  # noqa: PLC0415
    from werkzeug.serving import WSGIRequestHandler, make_server  # noqa: PLC0415

    class Handler(WSGIRequestHandler):
        """Keeps connections open, as S3 does, and logs nothing."""

        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log(self, *_: object) -> None:
            """Forget it."""

    application = add_delay(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=Handler)
    url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    boto3.client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="bench",
        aws_secret_access_key="bench",
    ).create_bucket(Bucket=BUCKET)
    print(url, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
