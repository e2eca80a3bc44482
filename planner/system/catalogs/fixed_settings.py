"""Settings of PostgreSQL that all sessions have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from lance_gateway.planner.system.catalogs.relations import Relations

SERVER_VERSION: Final = "16.0"
"""The version of PostgreSQL whose catalog tables are answered."""
FIXED_SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "client_encoding": "UTF8",
        "server_encoding": "UTF8",
        "TimeZone": "UTC",
        "standard_conforming_strings": "on",
        "bytea_output": "hex",
        "integer_datetimes": "on",
        "lc_collate": "C",
        "lc_ctype": "C",
        "server_version": SERVER_VERSION,
        "server_version_num": "160000",
        "transaction_isolation": "read committed",
        "default_transaction_isolation": "read committed",
        "default_table_access_method": "heap",
    }
)
"""Setting -> its value."""


def find_fixed_setting(name: str) -> str | None:
    """Return the value of a setting, whatever the case of its name; None if sessions differ in it."""
    return next((value for key, value in FIXED_SETTINGS.items() if key.lower() == name.lower()), None)


def list_settings(_relations: Relations) -> Iterator[dict[str, Any]]:
    """Yield the rows of pg_settings."""
    for name, value in FIXED_SETTINGS.items():
        yield {
            "name": name,
            "setting": value,
            "category": "Preset Options",
            "context": "internal",
            "vartype": "bool" if value in {"on", "off"} else "string",
            "source": "default",
            "boot_val": value,
            "reset_val": value,
            "pending_restart": False,
        }
