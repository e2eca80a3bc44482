"""Creates the catalog, the security and the write path of a server from its configuration."""

import ipaddress
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from argon2 import PasswordHasher

from lance_gateway.gateway.auth.authenticator import Authenticator
from lance_gateway.gateway.auth.calls import Security, see_everything
from lance_gateway.gateway.auth.credentials import Throttle
from lance_gateway.gateway.auth.files import WatchedFile, read_text
from lance_gateway.gateway.auth.gateway_tokens import ApiTokens, IssuedTokens, parse_tokens
from lance_gateway.gateway.auth.jwt import JwtVerifier, open_keys
from lance_gateway.gateway.auth.policy import parse_policy
from lance_gateway.gateway.auth.tls import Certificates, read_tls_arguments
from lance_gateway.gateway.auth.users import HASHER, Passwords, Users, parse_users
from lance_gateway.gateway.config.schema import GatewayConfig
from lance_gateway.gateway.config.sections.auth import AuthSection, JwtSection
from lance_gateway.gateway.config.sections.serving import TlsSection
from lance_gateway.gateway.config.sections.writes import WritesSection
from lance_gateway.gateway.peers.forwarding import Forwarding
from lance_gateway.gateway.peers.peer_identity import PeerToken, Trust
from lance_gateway.gateway.protocol.identity import Identity
from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError, PreconditionError
from lance_gateway.memwal.storage.root_format import check_format, mark_format
from lance_gateway.memwal.storage.time_limits import StorageLimits
from lance_gateway.memwal.writing import OwnershipPolicy, WriteOptions
from lance_gateway.memwal.writing.observing import WriteObserver
from lance_gateway.planner.access.rights import Access
from lance_gateway.planner.tables.local.scratch import sweep_scratch
from lance_gateway.planner.tables.local.temporary import TemporaryOptions, TemporaryTables
from lance_gateway.planner.tables.shared.cache import SharedCache
from lance_gateway.planner.tables.state.catalog import CACHE_BYTES, Catalog


def open_catalog(
    config: GatewayConfig,
    writing: WriteOptions | None = None,
    cache_bytes: int = CACHE_BYTES,
    shared: SharedCache | None = None,
) -> Catalog:
    """Open the root of a configuration; where it is written, remove what gateways that died have left.

    Args:
        config: all of it.
        writing: how tables are written; None where they are only read.
        cache_bytes: of the cache.
        shared: what is kept for other processes as well; None where nothing is shared.

    Raises:
        LanceGatewayError: there is no such root, a newer version has used it, or storage did not serve it.
    """
    catalog = Catalog.open(
        config.root,
        config.storage_options,
        cache_bytes=cache_bytes,
        writing=writing,
        limits=read_storage_limits(config),
        shared=shared,
        temporary=TemporaryTables(
            TemporaryOptions(
                config.server.temporary_directory,
                config.limits.max_temporary_bytes,
                config.limits.max_all_temporary_bytes,
            )
        ),
    )
    try:
        check_format(catalog.storage, version("lance-gateway"))
    except LanceGatewayError:
        catalog.close()
        raise
    if writing is not None:
        mark_format(catalog.storage, version("lance-gateway"))
        sweep_scratch(catalog.storage)
        catalog.temporary.sweep()
    return catalog


def read_storage_limits(config: GatewayConfig) -> StorageLimits:
    """Return the time limits of calls to storage."""
    storage = config.storage
    return StorageLimits(storage.connect_timeout, storage.request_timeout, storage.total_timeout)


def open_security(
    tls: TlsSection, auth: AuthSection, *, host: str, hasher: PasswordHasher = HASHER
) -> Security:
    """Create the security of a configuration; read all files that it names.

    Args:
        tls: the section of that name.
        auth: the section of that name.
        host: address that the server listens on.
        hasher: gives users who do not exist the cost of those who do.

    Raises:
        LanceGatewayError: a file makes no sense, or the server would be open to other machines.
    """
    arguments = _open_tls(tls)
    access = _open_access(auth.policy_file)
    authenticator = _open_authenticator(tls, auth, hasher)
    check_exposure(
        host, authenticated=authenticator is not None, encrypted=bool(arguments), insecure=auth.insecure
    )
    return Security(authenticator, access, arguments)


def check_exposure(host: str, *, authenticated: bool, encrypted: bool, insecure: bool) -> None:
    """Refuse to serve other machines without authentication, unless `insecure` allows it.

    Raises:
        PreconditionError: it is not allowed.
    """
    if is_loopback(host):
        return
    if not authenticated:
        if not insecure:
            raise PreconditionError(
                f"{host} can be reached by other machines, and no authentication is set: set "
                "auth.users_file, auth.tokens_file, auth.jwt or auth.certificates, listen on 127.0.0.1, or "
                "say --insecure to let everybody in"
            )
        logger.warning("listening on %s without authentication: whoever reaches it is let in", host)
    elif not encrypted:
        logger.warning(
            "listening on %s without TLS: passwords and tokens can be read on the way, unless something in "
            "front encrypts them; set tls.certificate_file and tls.key_file",
            host,
        )


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _open_tls(tls: TlsSection) -> Mapping[str, Any]:
    if tls.certificate_file is None:
        return {}
    if tls.key_file is None:
        raise InvalidInputError("tls.certificate_file is set without tls.key_file: name its private key")
    return read_tls_arguments(tls.certificate_file, tls.key_file, tls.client_ca_file)


def _open_access(policy_file: Path | None) -> Callable[[Identity], Access]:
    if policy_file is None:
        return see_everything
    policy = WatchedFile(policy_file, parse_policy)
    return lambda identity: policy().access(identity)


def _open_authenticator(tls: TlsSection, auth: AuthSection, hasher: PasswordHasher) -> Authenticator | None:
    if auth.certificates and tls.client_ca_file is None:
        raise InvalidInputError(
            "auth.certificates is on without tls.client_ca_file: name the authorities that sign clients"
        )
    users: Callable[[], Users] | None = None
    passwords = issued = api_tokens = None
    if auth.users_file is not None:
        users = WatchedFile(auth.users_file, parse_users)
        names = Throttle("user", auth.max_failures, auth.failure_window)
        passwords = Passwords(users, names, hasher=hasher)
        issued = IssuedTokens(users, auth.token_lifetime)
    if auth.tokens_file is not None:
        api_tokens = ApiTokens(WatchedFile(auth.tokens_file, parse_tokens))
    jwt = _open_jwt(auth.jwt)
    certificates = Certificates(users) if auth.certificates else None
    if not (passwords or api_tokens or jwt or certificates):
        return None
    return Authenticator(
        Throttle("address", auth.max_failures, auth.failure_window),
        passwords=passwords,
        issued=issued,
        api_tokens=api_tokens,
        jwt=jwt,
        certificates=certificates,
    )


def _open_jwt(section: JwtSection) -> JwtVerifier | None:
    if not section.jwks:
        return None
    return JwtVerifier(
        open_keys(section.jwks),
        section.issuer,
        section.audience,
        algorithms=section.algorithms,
        user_claim=section.user_claim,
        roles_claim=section.roles_claim,
        leeway=section.leeway,
    )


logger = logging.getLogger(__name__)

# The rest of the time is for claiming the region where its owner does not answer.
_FORWARDING_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Writing:
    """The write path of a gateway.

    Attributes:
        options: of all tables; None where the gateway only reads.
        forwarding: sends rows to other gateways; None where it does not.
        token: by which other gateways are known; None where they may not send rows to this one.
    """

    options: WriteOptions | None
    forwarding: Forwarding | None = None
    token: PeerToken | None = None

    def close(self) -> None:
        """Close the connections to other gateways."""
        if self.forwarding is not None:
            self.forwarding.close()


def open_writing(config: GatewayConfig, observer: WriteObserver | None = None) -> Writing:
    """Create the write path of a configuration.

    Args:
        config: all of it: certificates serve both sides.
        observer: of the writers' events.

    Raises:
        LanceGatewayError: keys that don't fit together, or a file that can't be read.
    """
    writes = config.writes
    if not writes.enabled:
        return Writing(None)
    token = _open_token(writes)
    policy = OwnershipPolicy(writes.ownership)
    _check_url(config)
    if policy is OwnershipPolicy.REFUSE and not writes.advertise_url:
        # By its address a gateway that was killed knows its regions again.
        raise PreconditionError(
            "writes.ownership is refuse, and writes.advertise_url is not set: by it clients find the owner "
            "of a region, and a gateway knows its own after a crash; or choose claim"
        )
    forwarding = None
    if policy is OwnershipPolicy.FORWARD:
        if token is None or not writes.advertise_url:
            missing = "writes.advertise_url" if token is not None else "writes.peer_token"
            raise PreconditionError(
                f"writes.ownership is forward, and {missing} is not set: gateways need an address to reach "
                "each other by and a secret to know each other by; or choose claim or refuse"
            )
        # Others that demand certificates of their clients get the one that this gateway serves with.
        mutual = config.tls.client_ca_file is not None
        trust = Trust(
            token,
            config.tls.certificate_file is not None,
            writes.peer_ca_file,
            config.tls.certificate_file if mutual else None,
            config.tls.key_file if mutual else None,
        )
        forwarding = Forwarding(trust, writes.claim_timeout * _FORWARDING_SHARE)
    options = WriteOptions(
        ownership=policy,
        hold_ms=round(writes.hold * 1000),
        claim_timeout_ms=max(1, round(writes.claim_timeout * 1000)),
        max_queued_bytes=writes.max_queued_bytes,
        max_memtable_rows=writes.max_memtable_rows,
        max_memtable_bytes=writes.max_memtable_bytes,
        idle_close_seconds=writes.idle_close,
        url=writes.advertise_url,
        forwarder=forwarding,
        observer=observer or WriteObserver(),
    )
    # Others can't forward rows to a gateway without an address.
    return Writing(options, forwarding, token if writes.advertise_url else None)


def _open_token(writes: WritesSection) -> PeerToken | None:
    if writes.peer_token:
        return PeerToken(writes.peer_token)
    if writes.peer_token_file is not None:
        try:
            return PeerToken(read_text(writes.peer_token_file).strip())
        except InvalidInputError as error:
            raise InvalidInputError(
                f"writes.peer_token_file {str(writes.peer_token_file)!r}: {error}"
            ) from None
    return None


def _check_url(config: GatewayConfig) -> None:
    url = config.writes.advertise_url
    if not url:
        return
    scheme, _, rest = url.partition("://")
    encrypted = config.tls.certificate_file is not None
    if encrypted != (scheme == "grpc+tls"):
        expected = "grpc+tls" if encrypted else "grpc"
        raise PreconditionError(
            f"writes.advertise_url is {url!r}, but the gateway serves {'with' if encrypted else 'without'} "
            f"TLS: write {expected}://{rest}"
        )
    host = rest.rpartition(":")[0].strip("[]")
    if not encrypted and not is_loopback(host):
        logger.warning(
            "writes.advertise_url is %s: rows and the peer token travel between gateways without TLS; set "
            "tls.certificate_file and tls.key_file",
            url,
        )
