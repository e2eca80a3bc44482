"""What a profile says, and the driver's arguments for it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from adbc_driver_flightsql import DatabaseOptions
from adbc_driver_manager import DatabaseOptions as CommonOptions
from dbt.adapters.contracts.connection import Credentials
from dbt_common.exceptions import DbtRuntimeError

_CATALOG: Final = "lance"
_TLS: Final = "grpc+tls://"
_FILES: Final[Mapping[str, DatabaseOptions]] = MappingProxyType(
    {
        "tls_ca": DatabaseOptions.TLS_ROOT_CERTS,
        "tls_certificate": DatabaseOptions.MTLS_CERT_CHAIN,
        "tls_key": DatabaseOptions.MTLS_PRIVATE_KEY,
    }
)


@dataclass
class LanceGatewayCredentials(Credentials):
    """A target of a profile.

    Attributes:
        database: the catalog; the gateway has `lance` alone.
        schema: where models go that name no schema.
        uri: `grpc://host:port`, or `grpc+tls://host:port`.
        user: with `password`, or None where `token` says who is there, or nobody asks.
        password: of the user.
        token: a bearer token.
        tls_ca: path of a PEM file: who may have signed the gateway's certificate.
        tls_certificate: path of a PEM file: the client's own certificate.
        tls_key: path of a PEM file: the key of that.
        session: options of the gateway's sessions by name, for all statements (`consistency`, ..).

    Raises:
        DbtRuntimeError: values that contradict each other, or another database.
    """

    database: str = _CATALOG
    schema: str = "main"
    uri: str = "grpc://127.0.0.1:31337"
    user: str | None = None
    password: str | None = None
    token: str | None = None
    tls_ca: str | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None
    session: dict[str, Any] = field(default_factory=dict)

    _ALIASES = {"catalog": "database", "pass": "password", "username": "user"}  # noqa: RUF012 - dbt reads it so

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if self.database != _CATALOG:
            raise DbtRuntimeError(
                f"the database is always {_CATALOG!r}, not {self.database!r}: leave it out of the profile"
            )
        if not self.uri.startswith(("grpc://", _TLS)):
            raise DbtRuntimeError(
                f"uri: {self.uri!r} in the profile is neither grpc://host:port nor {_TLS}host:port"
            )
        if self.user and self.token:
            raise DbtRuntimeError("the profile has both a user and a token: choose one way to log in")
        if self.password and not self.user:
            raise DbtRuntimeError("the profile has a password and no user: add 'user'")
        files = [name for name in _FILES if getattr(self, name)]
        if files and not self.uri.startswith(_TLS):
            raise DbtRuntimeError(f"{files[0]} in the profile needs TLS: write uri: {_TLS}..")

    @property
    def type(self) -> str:
        """Return the name of the adapter in profiles."""
        return "lance_gateway"

    @property
    def unique_field(self) -> str:
        """Return what tells gateways apart."""
        return self.uri

    def _connection_keys(self) -> tuple[str, ...]:
        return ("uri", "database", "schema", "user", "tls_ca", "tls_certificate", "session")

    def build_options(self) -> dict[str, str]:
        """Return the driver's options of a connection.

        Raises:
            DbtRuntimeError: a PEM file can't be read.
        """
        options = {DatabaseOptions.WITH_COOKIE_MIDDLEWARE.value: "true"}
        if self.user:
            options[CommonOptions.USERNAME.value] = self.user
            options[CommonOptions.PASSWORD.value] = self.password or ""
        if self.token:
            options[DatabaseOptions.AUTHORIZATION_HEADER.value] = f"Bearer {self.token}"
        for name, option in _FILES.items():
            path = getattr(self, name)
            if path:
                options[option.value] = _read_file(name, path)
        for name, value in self.session.items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            options[f"{DatabaseOptions.RPC_CALL_HEADER_PREFIX.value}x-lance-gateway-{name}"] = text
        return options


def _read_file(name: str, path: str) -> str:
    try:
        return Path(path).expanduser().read_text(encoding="utf-8")
    except OSError as error:
        raise DbtRuntimeError(f"{name}: {path!r} in the profile can't be read: {error.strerror}") from None
