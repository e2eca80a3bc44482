"""The command `lance-gateway mcp`."""

from contextlib import closing, suppress
from functools import partial
from typing import Annotated

import typer

from lance_gateway.gateway.cli.commands import exit_on_error
from lance_gateway.gateway.cli.connecting import (
    DEFAULT_URI,
    ChosenConsistency,
    Password,
    TlsCa,
    TlsCertificate,
    TlsKey,
    Token,
    Uri,
    User,
    create_login,
)
from lance_gateway.memwal.errors import LanceGatewayError, UnavailableError


def mcp(
    uri: Uri = DEFAULT_URI,
    user: User = None,
    password: Password = None,
    token: Token = None,
    tls_ca: TlsCa = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
    allow_writes: Annotated[  # noqa: FBT002 - an option on the command line
        bool, typer.Option("--allow-writes", help="Let statements change rows and tables.")
    ] = False,
    consistency: ChosenConsistency = None,
    max_rows: Annotated[int, typer.Option(min=1, help="Rows of an answer, at most.")] = 1000,
    max_bytes: Annotated[int, typer.Option(min=1, help="Bytes of the rows of an answer, at most.")] = 40_000,
    timeout: Annotated[float, typer.Option(min=0.001, help="Seconds that a statement may run.")] = 60.0,
) -> None:
    """Serve a gateway's tables to language models, by the Model Context Protocol on stdin and stdout."""
    with exit_on_error():
        login = create_login(user, password, token, tls_ca, tls_certificate, tls_key)
        chosen = {"query_timeout_ms": str(round(timeout * 1000))}
        if not allow_writes:
            chosen["read_only"] = "true"
        if consistency is not None:
            chosen["consistency"] = consistency
        try:
            from lance_gateway.gateway.cli.mcp.server import Gateway, create_server  # noqa: PLC0415 - an extra
        except ModuleNotFoundError as error:
            if str(error.name).partition(".")[0] not in ("mcp", "mcp_types"):
                raise
            raise LanceGatewayError(
                "this needs the package mcp, which is not installed: pip install 'lance-gateway[mcp]'"
            ) from None
        from lance_gateway.gateway.cli.client import GatewayClient  # noqa: PLC0415 - keeps --help quick
        from lance_gateway.gateway.cli.mcp.answers import AnswerLimits  # noqa: PLC0415

        connect = partial(GatewayClient, uri, login, chosen)
        with closing(Gateway(connect, AnswerLimits(max_rows, max_bytes))) as gateway:
            # What can never work is told at once. A gateway that is not there may come later.
            with suppress(UnavailableError):
                gateway.client  # noqa: B018
            with suppress(KeyboardInterrupt):
                create_server(gateway, allows_writes=allow_writes).run("stdio")
