"""Whether what the configuration leads to exists and fits: what `serve` would meet, without serving."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from gateway.auth.files import read_text
from gateway.auth.policies.policy import parse_policy
from gateway.auth.policies.policy_check import misfits
from gateway.config.loader import Loaded, fields
from gateway.config.schema import GatewayConfig
from gateway.start.observability import http_port
from gateway.start.run_server import listening_problem
from gateway.start.security import open_security
from gateway.start.writes import open_writing
from memwal.errors import InvalidInputError, LanceGatewayError
from planner.bridge import compatibility
from planner.tables.state.catalog import Catalog


def problems(loaded: Loaded) -> list[str]:
    """Returns one sentence per problem; none where a gateway can start."""
    config = loaded.config
    found = list(_missing_files(loaded))
    # Without its files nothing can be said of what is in them.
    checks: list[Callable[[], object]] = [compatibility.check]
    if not found:
        checks += [
            lambda: open_security(config.tls, config.auth, host=config.server.host),
            lambda: open_writing(config),
            lambda: _check_root(config),
        ]
    for check in checks:
        try:
            check()
        except LanceGatewayError as error:
            found.append(str(error))
    return [*found, *_taken_ports(config)]


def _missing_files(loaded: Loaded) -> Iterator[str]:
    for key, _, model in fields():
        if model is GatewayConfig or not key.endswith("_file"):
            continue
        value: object = loaded.config
        for part in key.split("."):
            value = getattr(value, part)
        if isinstance(value, Path) and not value.is_file():
            yield f"{loaded.sources[key]}: {key} = {str(value)!r}: there is no such file"


def _check_root(config: GatewayConfig) -> None:
    catalog = Catalog.open(config.root, config.storage_options, writing=None)
    try:
        catalog.names()
        if config.auth.policy_file is not None:
            text = read_text(config.auth.policy_file)
            policy = parse_policy(text, str(config.auth.policy_file))
            found = misfits(policy, catalog)
            if found:
                raise InvalidInputError("; ".join(found))
    finally:
        catalog.close()


def _taken_ports(config: GatewayConfig) -> Iterator[str]:
    server, http = config.server, config.observability
    for key, host, port in (
        ("server.port", server.host, server.port),
        ("observability.http_port", http.http_host, http_port(http, server.port)),
    ):
        reason = None if not port else listening_problem(host, port)
        if reason is not None:
            yield f"{key}: cannot listen on {host}:{port}: {reason}; choose another port"
