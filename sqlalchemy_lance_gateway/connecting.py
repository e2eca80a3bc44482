"""The arguments of the driver's `connect`, from the URL of an engine."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import sqlalchemy as sa
from adbc_driver_flightsql import DatabaseOptions
from adbc_driver_manager import DatabaseOptions as CommonOptions

_DEFAULT_PORT: Final = 31337
_CATALOG: Final = "lance"
_TRUE: Final = frozenset({"true", "1", "yes", "on"})
_FALSE: Final = frozenset({"false", "0", "no", "off"})
_FILES: Final[Mapping[str, DatabaseOptions]] = MappingProxyType(
    {
        "tls_ca": DatabaseOptions.TLS_ROOT_CERTS,
        "tls_certificate": DatabaseOptions.MTLS_CERT_CHAIN,
        "tls_key": DatabaseOptions.MTLS_PRIVATE_KEY,
    }
)
# Options that change what a statement means are not among them: the dialect writes the gateway's own SQL.
SESSION_OPTIONS: Final = frozenset(
    {
        "consistency",
        "durable_writes",
        "endpoints",
        "max_staleness_ms",
        "query_timeout_ms",
        "read_only",
        "region_pruning",
        "shortcuts",
    }
)
"""Session options of the gateway that a URL may set, for all statements of an engine."""


def build_arguments(url: sa.URL, *, tls: bool) -> tuple[list[str], dict[str, Any]]:
    """Return the positional and the named arguments of the driver's `connect`.

    Args:
        url: `lance_gateway://[user:password@]host[:port][/lance]?..`. Behind the question mark may stand
            `tls`, `token`, `tls_ca`, `tls_certificate` and `tls_key` (PEM files), session options, and
            options of the driver, whose names begin with `adbc.`.
        tls: whether the URL's scheme asks for TLS.

    Raises:
        sqlalchemy.exc.ArgumentError: an option is unknown, comes twice or has no such value, or a file can't
            be read.
    """
    if url.database not in {None, "", _CATALOG}:
        raise sa.exc.ArgumentError(
            f"the gateway has the database {_CATALOG!r} alone, not {url.database!r}: leave it out of the URL"
        )
    # SET and temporary tables are of a session, which a cookie names.
    options = {DatabaseOptions.WITH_COOKIE_MIDDLEWARE.value: "true"}
    encrypted = tls
    for name, value in url.query.items():
        if not isinstance(value, str):
            raise sa.exc.ArgumentError(f"the URL has {name!r} more than once")
        if name == "tls":
            encrypted = _read_flag(name, value)
            if tls and not encrypted:
                raise sa.exc.ArgumentError("lance_gateway+tls:// and tls=false contradict each other")
        else:
            options |= _read_option(name, value)
    options |= _read_credentials(url, options)
    if not encrypted and any(file.value in options for file in _FILES.values()):
        raise sa.exc.ArgumentError("certificates need TLS: write lance_gateway+tls://, or tls=true")
    scheme = "grpc+tls" if encrypted else "grpc"
    address = f"{scheme}://{_format_host(url.host)}:{url.port or _DEFAULT_PORT}"
    return [address], {"db_kwargs": options, "autocommit": True}


def _format_host(host: str | None) -> str:
    if host is None:
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def _read_flag(name: str, value: str) -> bool:
    if value.lower() in _TRUE:
        return True
    if value.lower() in _FALSE:
        return False
    raise sa.exc.ArgumentError(f"{name}={value!r} in the URL is neither true nor false")


def _read_option(name: str, value: str) -> dict[str, str]:
    """Return the driver's options for one option of a URL."""
    if name == "token":
        return {DatabaseOptions.AUTHORIZATION_HEADER.value: f"Bearer {value}"}
    if name in _FILES:
        try:
            return {_FILES[name].value: Path(value).read_text(encoding="utf-8")}
        except OSError as error:
            raise sa.exc.ArgumentError(f"{name}={value!r} can't be read: {error.strerror}") from None
    if name in SESSION_OPTIONS:
        return {f"{DatabaseOptions.RPC_CALL_HEADER_PREFIX.value}x-lance-gateway-{name}": value}
    if name.startswith("adbc."):
        return {name: value}
    known = ", ".join(sorted({"tls", "token", *_FILES, *SESSION_OPTIONS}))
    raise sa.exc.ArgumentError(
        f"the URL has an unknown option {name!r}; there are {known}, and options of the driver (adbc. ..)"
    )


def _read_credentials(url: sa.URL, options: Mapping[str, str]) -> dict[str, str]:
    if url.username is None:
        return {}
    if DatabaseOptions.AUTHORIZATION_HEADER.value in options:
        raise sa.exc.ArgumentError("both a user and a token are given: choose one way to log in")
    return {
        CommonOptions.USERNAME.value: url.username,
        CommonOptions.PASSWORD.value: "" if url.password is None else str(url.password),
    }
