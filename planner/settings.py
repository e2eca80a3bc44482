"""What a session may choose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from memwal.errors import InvalidInputError
from planner.catalog import CATALOG, SCHEMA
from planner.plain_types import TypeSet
from planner.shortcuts import ALL_SHORTCUTS, Shortcuts
from planner.snapshot import CONSISTENCY_LEVELS, Consistency

DIALECTS = ("postgres", "spark", "duckdb", "mysql", "snowflake", "bigquery", "trino")
MAX_ENDPOINTS = 4096
ClientTypes: TypeAlias = Literal["auto"] | TypeSet
CLIENT_TYPES: tuple[ClientTypes, ...] = ("auto", "arrow", "jdbc")


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """What a session may choose.

    Attributes:
        catalog: the one catalog there is.
        schema: the one schema there is.
        consistency: "strong" (newest manifests and WAL), "flushed" (newest manifests) or "snapshot" (what the
            MemWAL index remembers).
        max_staleness_ms: a table's last snapshot may be used again while it is this young.
        region_pruning: whether predicates may exclude regions.
        dialect: of the session's SQL; see `planner.dialects`.
        endpoints: into how many parts the result of a plain scan is divided, at most.
        query_timeout_ms: a statement that runs longer is stopped; 0 leaves it to the server's own limit.
        types: of results and parameters: "arrow" as they are, "jdbc" as the JDBC driver can read them, "auto"
            as whoever serves the client knows best, otherwise "arrow"; see `planner.plain_types`.
        durable_writes: whether a write is acknowledged when it survives the end of the gateway's process, and
            not already when the gateway has it in memory.
        shortcuts: that may be taken; see `planner.shortcuts`.
    """

    catalog: str = CATALOG
    schema: str = SCHEMA
    consistency: Consistency = "strong"
    max_staleness_ms: int = 0
    region_pruning: bool = True
    dialect: str = "postgres"
    endpoints: int = 1
    query_timeout_ms: int = 0
    types: ClientTypes = "auto"
    durable_writes: bool = True
    shortcuts: Shortcuts = ALL_SHORTCUTS

    def __post_init__(self) -> None:
        for name, value, known in (("catalog", self.catalog, CATALOG), ("schema", self.schema, SCHEMA)):
            if value != known:
                msg = f"{name} {value!r} does not exist: there is {known!r}"
                raise InvalidInputError(msg)
        if self.consistency not in CONSISTENCY_LEVELS:
            msg = f"consistency {self.consistency!r} is unknown: choose {', '.join(CONSISTENCY_LEVELS)}"
            raise InvalidInputError(msg)
        if self.max_staleness_ms < 0:
            msg = f"max_staleness_ms is {self.max_staleness_ms}: give 0 (always fresh) or more milliseconds"
            raise InvalidInputError(msg)
        if self.dialect not in DIALECTS:
            msg = f"dialect {self.dialect!r} is unknown: choose {', '.join(DIALECTS)}"
            raise InvalidInputError(msg)
        if not 1 <= self.endpoints <= MAX_ENDPOINTS:
            msg = f"endpoints is {self.endpoints}: choose a number from 1 to {MAX_ENDPOINTS}"
            raise InvalidInputError(msg)
        if self.query_timeout_ms < 0:
            msg = f"query_timeout_ms is {self.query_timeout_ms}: give milliseconds, or 0 for none of its own"
            raise InvalidInputError(msg)
        if self.types not in CLIENT_TYPES:
            msg = f"types {self.types!r} is unknown: choose {', '.join(CLIENT_TYPES)}"
            raise InvalidInputError(msg)

    @property
    def type_set(self) -> TypeSet:
        """Which types results and parameters have."""
        return "arrow" if self.types == "auto" else self.types


DEFAULT_SETTINGS = SessionSettings()
