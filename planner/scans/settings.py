"""What a session may choose.

The shortcuts of the query engine: ways to the same answer that cost less than the general one.

Each can be switched off for a session, by the option `shortcuts`. What is computed without any of them is
simple enough to be trusted by reading, so two sessions that differ in this option only check each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Literal, TypeAlias

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.memwal.storage.table_names import CATALOG, MAIN_SCHEMA
from lance_gateway.planner.bridge.types.plain_types import TypeSet
from lance_gateway.planner.tables.sources.snapshot import CONSISTENCY_LEVELS, Consistency


class Shortcut(StrEnum):
    """One shortcut; its value is its name in the option `shortcuts`."""

    DIRECT_SCANS = "direct_scans"
    """A statement that is one scan and nothing else is read without DataFusion. Off: DataFusion runs it."""
    DIRECT_COUNTS = "direct_counts"
    """`count(*)` of one scan adds the lengths of its batches. Off: DataFusion aggregates."""
    DIRECT_SEARCHES = "direct_searches"
    """A statement that is one search and nothing else needs no plan from its second run on. Off: DataFusion
    runs it each time."""
    DIRECT_SYSTEM_SCANS = "direct_system_scans"
    """All rows of a system table are read without DataFusion. Off: DataFusion runs the statement."""
    KEY_QUERIES = "key_queries"
    """`SELECT columns FROM t WHERE key = value` is answered without a plan. Off: it is planned."""
    KEY_LOOKUPS = "key_lookups"
    """Conjuncts that admit a few primary keys read the rows of these keys. Off: the table is scanned."""
    CONSTANTS = "constants"
    """The result of a statement without tables is kept with its plan. Off: it is computed by each run."""
    KEPT_PLANS = "kept_plans"
    """A statement is planned once and run many times. Off: each preparation and each run plans again."""
    KEPT_WRITES = "kept_writes"
    """As `kept_plans`, for statements that change rows. Off: each preparation checks the statement again."""
    KEPT_COLUMNS = "kept_columns"
    """Columns that were read are kept in memory. Off: they are read from storage."""
    RESIDENT_TABLES = "resident_tables"
    """Tables whose columns are kept are DataFusion's own, in statements that read many rows. Off: DataFusion
    reads all tables through leaves."""
    JOIN_KEYS = "join_keys"
    """Rows of resident tables whose keys no row of a joined table has are left out before. Off: the joins
    drop them."""
    KEPT_MASKS = "kept_masks"
    """Which rows are the newest of their key, and where keys are, is kept. Off: each run computes it from
    the stored keys."""
    KEPT_STATE = "kept_state"
    """State of a table, and rows that this process wrote, are kept in memory. Off: each run reads all of it
    from storage, and keeps nothing of the other `kept_` names."""
    REGION_PRUNING = "region_pruning"
    """Conjuncts exclude regions without matching rows. Off: every region is read. The older option
    `region_pruning` switches off the same: regions are excluded where both allow it."""
    PUSHDOWN = "pushdown"
    """Conjuncts are evaluated while rows are read. Off: DataFusion filters the rows above the scan, except in
    statements that call a search function, where conjuncts decide what is ranked."""
    PARTS = "parts"
    """The result of a scan is divided into several endpoints. Off: it has one."""
    SEARCH_INDEXES = "search_indexes"
    """Searches use the indexes of the base table and of generations. Off: they compare every row."""
    KEPT_SEARCHES = "kept_searches"
    """Postings, lengths and masks of searches are kept. Off: they are computed for each search."""
    NEAREST_ORDER = "nearest_order"
    """`ORDER BY` a distance with `LIMIT` is read as a search. Off: all rows are sorted."""
    SHARED_ROWS = "shared_rows"
    """Stored rows that two states show are not compared by `lance_changes`. Off: both are read whole."""
    LITERAL_VALUES = "literal_values"
    """Literals of VALUES, and of SET in an UPDATE, are read without DataFusion. Off: DataFusion reads those
    that it reads alike: whole numbers, texts, bytes, true and false."""
    WRITE_LOOKUPS = "write_lookups"
    """A write looks up the rows of the keys that it changes. Off: it finds them by a scan."""


Shortcuts = frozenset[Shortcut]
"""The shortcuts that may be taken."""
ALL_SHORTCUTS: Shortcuts = frozenset(Shortcut)
NO_SHORTCUTS: Shortcuts = frozenset()
_NAMED_SETS = {"all": ALL_SHORTCUTS, "none": NO_SHORTCUTS}


def parse_shortcuts(text: str) -> Shortcuts:
    """Read the value of the option `shortcuts`.

    Args:
        text: 'all', 'none', or the names of those that stay on, separated by commas.

    Raises:
        InvalidInputError: a name is unknown; the error names those that exist.
    """
    whole = _NAMED_SETS.get(text.strip().lower())
    if whole is not None:
        return whole
    names = [name.strip().lower() for name in text.split(",")]
    unknown = [name for name in names if name not in _NAMES]
    if unknown:
        msg = (
            f"shortcuts {text!r}: there is no shortcut {unknown[0]!r}; give 'all', 'none', or some of "
            f"{', '.join(Shortcut)}, separated by commas"
        )
        raise InvalidInputError(msg)
    return _intern(frozenset(_NAMES[name] for name in names))


def format_shortcuts(shortcuts: Shortcuts) -> str:
    """Format shortcuts as `parse_shortcuts` reads them."""
    for word, meant in _NAMED_SETS.items():
        if shortcuts == meant:
            return word
    return ",".join(one for one in Shortcut if one in shortcuts)


def exclude_shortcuts(names: frozenset[str]) -> Shortcuts:
    """Return all shortcuts without the named ones.

    Raises:
        InvalidInputError: a name is unknown.
    """
    if not names:
        return ALL_SHORTCUTS
    unknown = sorted(names - _NAMES.keys())
    if unknown:
        msg = f"there is no shortcut {unknown[0]!r}; there are {', '.join(Shortcut)}"
        raise InvalidInputError(msg)
    return _intern(ALL_SHORTCUTS - {_NAMES[name] for name in names})


_NAMES = {one.value: one for one in Shortcut}


def _intern(shortcuts: Shortcuts) -> Shortcuts:
    """Return one object for each usual set of shortcuts, so that cache keys compare quickly."""
    return next((known for known in _NAMED_SETS.values() if known == shortcuts), shortcuts)


DIALECTS = ("postgres", "spark", "duckdb", "mysql", "snowflake", "bigquery", "trino")
MAX_ENDPOINTS = 4096
ClientTypes: TypeAlias = Literal["auto"] | TypeSet
CLIENT_TYPES: tuple[ClientTypes, ...] = ("auto", "arrow", "jdbc")


@dataclass(frozen=True)
class SessionSettings:
    """Settings of a session.

    Attributes:
        catalog: the one catalog there is.
        schema: the schema of names without one; statements that use such a name fail where there is none.
        consistency: "strong" (newest manifests and WAL), "flushed" (newest manifests) or "snapshot" (what the
            MemWAL index remembers).
        max_staleness_ms: a table's last snapshot may be used again while it is this young.
        region_pruning: whether predicates may exclude regions.
        dialect: of the session's SQL; see `planner.sql.dialects.translate`.
        endpoints: into how many parts the result of a plain scan is divided, at most.
        query_timeout_ms: a statement that runs longer is stopped; 0 leaves it to the server's own limit.
        types: of results and parameters: "arrow" as they are, "jdbc" as the JDBC driver can read them, "auto"
            as whoever serves the client knows best, otherwise "arrow"; see `planner.bridge.types`.
        durable_writes: whether a write is acknowledged when it survives the end of the gateway's process, and
            not already when the gateway has it in memory.
        read_only: whether the gateway refuses statements that change something.
        shortcuts: that may be taken; see `planner.scans.settings`.
    """

    catalog: str = CATALOG
    schema: str = MAIN_SCHEMA
    consistency: Consistency = "strong"
    max_staleness_ms: int = 0
    region_pruning: bool = True
    dialect: str = "postgres"
    endpoints: int = 1
    query_timeout_ms: int = 0
    types: ClientTypes = "auto"
    durable_writes: bool = True
    read_only: bool = False
    shortcuts: Shortcuts = ALL_SHORTCUTS

    def __post_init__(self) -> None:
        if self.catalog != CATALOG:
            msg = f"catalog {self.catalog!r} does not exist: there is {CATALOG!r}"
            raise InvalidInputError(msg)
        if not self.schema:
            msg = f"schema is empty: name the one of names without a schema, such as {MAIN_SCHEMA!r}"
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

    @cached_property
    def type_set(self) -> TypeSet:
        """Types of results and parameters."""
        return "arrow" if self.types == "auto" else self.types


DEFAULT_SETTINGS = SessionSettings()
