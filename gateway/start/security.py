"""From the configuration to the security of a server."""

import ipaddress
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from argon2 import PasswordHasher

from gateway.auth.authenticator import Authenticator
from gateway.auth.files import WatchedFile
from gateway.auth.passwords import HASHER, Passwords
from gateway.auth.policies.policy import parse_policy
from gateway.auth.security import GuardedSecurity, OpenSecurity, Security
from gateway.auth.throttle import Throttle
from gateway.auth.tls import PLAINTEXT, Certificates, tls_arguments
from gateway.auth.tokens.gateway_tokens import ApiTokens, IssuedTokens, parse_tokens
from gateway.auth.tokens.jwks import open_keys
from gateway.auth.tokens.jwt import JwtVerifier
from gateway.auth.users import Users, parse_users
from gateway.config.schema import AuthSection, JwtSection, TlsSection
from gateway.protocol.identity import Identity
from memwal.errors import InvalidInputError, PreconditionError
from planner.access.rights import Access

logger = logging.getLogger(__name__)


def open_security(
    tls: TlsSection, auth: AuthSection, *, host: str, hasher: PasswordHasher = HASHER
) -> Security:
    """Returns the security that a configuration asks for, after reading all files that it names.

    Args:
        tls: the section of that name.
        auth: the section of that name.
        host: address that the server listens on.
        hasher: gives users who do not exist the cost of those who do.

    Raises:
        LanceGatewayError: a file makes no sense, or the server would be open to other machines.
    """
    arguments = _tls(tls)
    access = _access(auth.policy_file)
    authenticator = _authenticator(tls, auth, hasher)
    check_exposure(
        host, authenticated=authenticator is not None, encrypted=bool(arguments), insecure=auth.insecure
    )
    if authenticator is None:
        return OpenSecurity(access, arguments)
    return GuardedSecurity(authenticator, access, arguments)


def check_exposure(host: str, *, authenticated: bool, encrypted: bool, insecure: bool) -> None:
    """Refuses to let other machines in without authentication, unless somebody said so.

    Raises:
        PreconditionError: nobody did.
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
    """Whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _tls(tls: TlsSection) -> Mapping[str, Any]:
    if tls.certificate_file is None:
        return PLAINTEXT
    if tls.key_file is None:
        raise InvalidInputError("tls.certificate_file is set without tls.key_file: name its private key")
    return tls_arguments(tls.certificate_file, tls.key_file, tls.client_ca_file)


def _access(policy_file: Path | None) -> Callable[[Identity], Access] | None:
    if policy_file is None:
        return None
    policy = WatchedFile(policy_file, parse_policy)
    return lambda identity: policy().access(identity)


def _authenticator(tls: TlsSection, auth: AuthSection, hasher: PasswordHasher) -> Authenticator | None:
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
    jwt = _jwt(auth.jwt)
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


def _jwt(section: JwtSection) -> JwtVerifier | None:
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
