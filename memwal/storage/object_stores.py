"""Opens object stores by the storage options that pylance takes."""

import os
from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final

from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, ObjectStore, S3Store

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.memwal.storage.time_limits import StorageLimits

SCHEMES: Final[Mapping[str, str]] = MappingProxyType(
    {"s3": "Amazon S3", "gs": "Google Cloud Storage", "az": "Azure Blob Storage"}
)
"""Scheme of a URI -> the service."""
_MAX_RETRIES: Final = 10
# So that the first answer after an outage is not waited for.
_MAX_BACKOFF_SECONDS: Final = 1.0
_OF_CLIENTS: Final = frozenset(
    {
        "allow_http",
        "connect_timeout",
        "read_timeout",
        "timeout",
        "client_max_retries",
        "client_retry_timeout",
        "download_retry_count",
    }
)
"""Options that say nothing about the service."""


def open_object_store(
    scheme: str, bucket: str, options: Mapping[str, str], limits: StorageLimits
) -> ObjectStore:
    """Open a bucket or container; nothing is requested.

    Args:
        scheme: one of `SCHEMES`.
        bucket: its name.
        options: as pylance takes them; what they lack, environment variables of the service's own may tell.
        limits: of requests; those among the options win.

    Raises:
        InvalidInputError: an option is unknown, or has a value that it can't have.
    """
    if scheme == "s3":
        return _open_s3(bucket, options, limits)
    config = _select_config(options)
    shared = _build_client_arguments(options, limits)
    try:
        if scheme == "gs":
            return GCSStore(bucket, config=config, **shared)
        return AzureStore(bucket, config=config, **shared)
    except (BaseError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        msg = f"the storage options don't open {scheme}://{bucket} on {SCHEMES[scheme]}: {reason}"
        raise InvalidInputError(msg) from error


def _select_config(options: Mapping[str, str]) -> Any:  # noqa: ANN401 - each store has a type of its own
    """Return the options that are about the service."""
    return {name: value for name, value in options.items() if name.lower() not in _OF_CLIENTS}


def _open_s3(bucket: str, options: Mapping[str, str], limits: StorageLimits) -> S3Store:
    settings: dict[str, str | None] = {
        "endpoint": _find_option(options, "endpoint", "endpoint_url"),
        "access_key_id": _find_option(options, "access_key_id"),
        "secret_access_key": _find_option(options, "secret_access_key"),
        "token": _find_option(options, "session_token", "token"),
        "region": _find_option(options, "region", "default_region"),
    }
    return S3Store(
        bucket,
        config={key: value for key, value in settings.items() if value is not None},  # type: ignore[arg-type]
        virtual_hosted_style_request=_is_set(options, "virtual_hosted_style_request"),
        skip_signature=_is_set(options, "skip_signature"),
        **_build_client_arguments(options, limits),
    )


def _build_client_arguments(options: Mapping[str, str], limits: StorageLimits) -> dict[str, Any]:
    """Return the arguments that all stores take."""
    limited = limits.complete(options)
    return {
        "client_options": {
            "allow_http": _is_set(options, "allow_http"),
            "connect_timeout": _find_option(limited, "connect_timeout") or "",
            "read_timeout": _find_option(limited, "read_timeout") or "",
            "timeout": _find_option(limited, "timeout") or "",
        },
        "retry_config": {
            "max_retries": int(_find_option(options, "client_max_retries") or _MAX_RETRIES),
            "backoff": {"max_backoff": timedelta(seconds=_MAX_BACKOFF_SECONDS)},
            # A retry begins no later, and takes no longer than a request may.
            "retry_timeout": timedelta(seconds=limits.total_seconds - limits.request_seconds),
        },
    }


def _find_option(options: Mapping[str, str], *names: str) -> str | None:
    """Return the first of these options, with or without "aws_", or else an environment variable."""
    spellings = [spelling for name in names for spelling in (f"aws_{name}", name)]
    given = {key.lower(): value for key, value in options.items()}
    for spelling in spellings:
        if spelling in given:
            return given[spelling]
    return next(
        (os.environ[f"AWS_{name.upper()}"] for name in names if f"AWS_{name.upper()}" in os.environ), None
    )


def _is_set(options: Mapping[str, str], name: str) -> bool:
    return (_find_option(options, name) or "").lower() in ("1", "true", "yes")
