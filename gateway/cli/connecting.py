"""The options of commands that are clients of a gateway: where it is, and who connects."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

if TYPE_CHECKING:
    from lance_gateway.gateway.cli.client import Login

DEFAULT_URI = "grpc://127.0.0.1:31337"

Uri: TypeAlias = Annotated[str, typer.Option(help="Address of the gateway; grpc+tls://... is encrypted.")]
User: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="User name; the password is asked for, or taken from the variable LANCE_GATEWAY_PASSWORD."
    ),
]
Password: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Password, which others on this machine may see here: prefer the variable.",
        envvar="LANCE_GATEWAY_PASSWORD",
        show_envvar=False,
    ),
]
Token: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Bearer token; prefer the variable LANCE_GATEWAY_TOKEN.",
        envvar="LANCE_GATEWAY_TOKEN",
        show_envvar=False,
    ),
]
TlsCa: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="PEM file of the authorities that the server's certificate may come from."),
]
TlsCertificate: TypeAlias = Annotated[Path | None, typer.Option(help="PEM file of a client certificate.")]
TlsKey: TypeAlias = Annotated[Path | None, typer.Option(help="PEM file of the key of the certificate.")]
ChosenConsistency: TypeAlias = Annotated[
    str | None, typer.Option(help="strong, flushed or snapshot; the server's default is strong.")
]


def create_login(
    user: str | None,
    password: str | None,
    token: str | None,
    tls_ca: Path | None,
    tls_certificate: Path | None,
    tls_key: Path | None,
) -> "Login":
    """Return who connects; ask for the password of a user where somebody can answer.

    Raises:
        InvalidInputError: the options contradict each other, or one is missing.
    """
    from lance_gateway.gateway.cli.client import Login  # noqa: PLC0415 - keeps --help and --version quick

    if user is None:
        # The variable may be set for other calls.
        password = None
    elif password is None and sys.stdin.isatty():
        password = str(typer.prompt(f"Password of {user}", hide_input=True))
    return Login(user, password, None if user else token, tls_ca, tls_certificate, tls_key)
