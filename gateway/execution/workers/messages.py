"""What the front process and a worker say to each other.

On the channel of a statement, the front process asks, and the worker answers with any number of `Started`,
`StoredBatch`, `InlineBatch`, `Trimmed` and `MemoryMeasured`, and then with one of `Answered`, `Failed` and
`Unknown`. While it waits, the front process may say `Cancel` and `MeasureMemory`.

The messages have no slots, with which pickling takes several times as long.

On the control channel of a worker, the worker says `Ready` and `Opened` and asks for rows of system tables,
and the front process hands over the sockets of statements' channels.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from lance_gateway.execnodes import MeasuredNode, MetricsSet
from lance_gateway.gateway.execution.workers.segments import StoredBatch, Trimmed
from lance_gateway.memwal.errors import LanceGatewayError
from lance_gateway.memwal.storage.time_limits import StorageLimits
from lance_gateway.planner.access.rights import Access
from lance_gateway.planner.access.visible_catalog import FoundNames
from lance_gateway.planner.binding.bound_statement import BoundStatement
from lance_gateway.planner.bridge.memory_use import MemoryUse
from lance_gateway.planner.bridge.run_control import TableRead
from lance_gateway.planner.plans.scan_parts import ScanPart
from lance_gateway.planner.scans.settings import SessionSettings
from lance_gateway.planner.tables.state.transaction_table import DescribedTable


class WorkerFailedError(Exception):
    """A worker met an error that is neither in the statement nor in the data."""


@dataclass(frozen=True)
class WorkerOptions:
    """What a worker needs to know to serve statements.

    Attributes:
        root: as in the configuration.
        storage_options: likewise.
        storage_limits: of calls to storage.
        cache_bytes: of the worker's own cache.
        partitions: of every plan; None for one per core, and one over small tables.
        query_memory_bytes: memory of one statement before it spills to disk.
        memory_bytes: that the process may have; what allocates more ends with it.
        max_batch_bytes: size of a batch on the wire.
        writes: whether the front process writes.
        configure_logging: sets up the log of the process.
        shared_directory: of what all processes keep together; None where each keeps its own.
        shared_bytes: budget of the directory.
        opens_ahead: whether it opens tables before statements ask for them.
    """

    root: str
    storage_options: Mapping[str, str]
    storage_limits: StorageLimits
    cache_bytes: int
    partitions: int | None
    query_memory_bytes: int | None
    memory_bytes: int
    max_batch_bytes: int
    writes: bool = True
    configure_logging: Callable[[], None] | None = None
    shared_directory: Path | None = None
    shared_bytes: int = 0
    opens_ahead: bool = True


@dataclass(frozen=True)
class Unbound:
    """A long statement whose names the worker resolves.

    Attributes:
        statement: SQL.
        value_types: of its parameters, where they are those of the bound values.
    """

    statement: str
    value_types: tuple[pa.DataType, ...] = ()


@dataclass(frozen=True)
class Definition:
    """A statement, in all that its plan depends on.

    Attributes:
        bound: with resolved names, or a long one without.
        settings: of its session.
        access: of its principal.
        system_tables: name -> columns of the system tables that it may read.
    """

    bound: BoundStatement | Unbound
    settings: SessionSettings
    access: Access
    system_tables: Mapping[str, pa.Schema]


@dataclass(frozen=True)
class Statement:
    """A statement that a worker may know already.

    Attributes:
        number: by which the front process knows it.
        definition: None where the worker should know it.
    """

    number: int
    definition: Definition | None


@dataclass(frozen=True)
class RunRequest:
    """The values and settings of one run.

    Attributes:
        parameters: one array of one value per parameter.
        settings: of the run; None where they are those of the statement.
        written_at: table -> when the front process wrote rows of it last, in seconds of the monotonic clock.
        is_measured: whether the exec nodes are measured.
        transaction: table -> what the transaction that the run is part of sees; None outside of one.
    """

    parameters: tuple[pa.Array, ...]
    settings: SessionSettings | None
    written_at: Mapping[str, float]
    is_measured: bool = False
    transaction: Mapping[str, DescribedTable] | None = None


@dataclass(frozen=True)
class Check:
    """Check a statement; the answer is a `Checked`."""

    statement: Statement


@dataclass(frozen=True)
class Checked:
    """The schemas of a statement's result and parameters.

    Attributes:
        schema: of the result.
        parameter_schema: one field per parameter.
        bound: the statement without its text, if the worker has bound it.
        found: what the names in it mean, likewise.
    """

    schema: pa.Schema
    parameter_schema: pa.Schema
    bound: BoundStatement | None = None
    found: FoundNames | None = None


@dataclass(frozen=True)
class RemoteScan:
    """What a worker read for one table reference: a `RunningScan` for the front process."""

    read: TableRead | None
    measured: MeasuredNode | None = None
    planned_tree: None = None

    def measure(self, metrics: MetricsSet) -> MeasuredNode | None:  # noqa: ARG002 - measured in the worker
        """See `RunningScan.measure`."""
        return self.measured


@dataclass(frozen=True)
class Execute:
    """Run a statement, or one part of its result, and send its batches; the answer is its `RemoteScan`s."""

    statement: Statement
    run: RunRequest
    part: ScanPart | None = None


@dataclass(frozen=True)
class FindRegions:
    """Find the regions of a table that a statement would read; the answer is a set of their ids."""

    statement: Statement
    run: RunRequest
    table: str
    settings: SessionSettings


@dataclass(frozen=True)
class Divide:
    """Divide the result of a statement; the answer is None, or the parts and their number of rows."""

    statement: Statement
    run: RunRequest
    count: int


@dataclass(frozen=True)
class ReadWrite:
    """Check a long statement that writes; the answer is a `LongInsert` or None.

    Attributes:
        sql: the statement.
        settings: of its session.
        access: of its principal.
        system_tables: name -> columns of the system tables that it may read.
    """

    sql: str
    settings: SessionSettings
    access: Access
    system_tables: Mapping[str, pa.Schema]


@dataclass(frozen=True)
class CallFunction:
    """Call a function; the answer is what it returns."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]


Request: TypeAlias = Check | Execute | FindRegions | Divide | ReadWrite | CallFunction


@dataclass(frozen=True)
class Cancel:
    """Stop what is being done, with this error."""

    error: LanceGatewayError


@dataclass(frozen=True)
class MeasureMemory:
    """Say what the request holds in memory."""


@dataclass(frozen=True)
class MemoryMeasured:
    """What the request holds in memory, or has held at most."""

    use: MemoryUse


@dataclass(frozen=True)
class Started:
    """The tables that a run reads, before its first batch if that is large."""

    reads: tuple[TableRead, ...]


@dataclass(frozen=True)
class InlineBatch:
    """A small batch, as an encapsulated IPC message.

    Attributes:
        data: the message.
        reads: the tables that the run reads, with its first batch.
    """

    data: bytes
    reads: tuple[TableRead, ...] | None = None


@dataclass(frozen=True)
class Answered:
    """The end of a request that succeeded, with its answer."""

    value: Any = None


@dataclass(frozen=True)
class Failed:
    """The end of a request that failed.

    Attributes:
        error: for the client; None if the worker did not expect what happened.
        text: what happened then, for the log.
    """

    error: LanceGatewayError | None
    text: str = ""

    def to_error(self) -> Exception:
        """Return the error to raise in the front process."""
        return self.error or WorkerFailedError(self.text)


@dataclass(frozen=True)
class Unknown:
    """The end of a request about a statement that the worker does not know: it must be defined."""


Answer: TypeAlias = (
    Started | StoredBatch | InlineBatch | Trimmed | MemoryMeasured | Answered | Failed | Unknown
)
FINAL = (Answered, Failed, Unknown)


@dataclass(frozen=True)
class Ready:
    """The worker takes statements."""


@dataclass(frozen=True)
class Opened:
    """The worker has opened the tables that it opens ahead."""


@dataclass(frozen=True)
class OpenChannel:
    """The socket of a channel comes with this message."""


@dataclass(frozen=True)
class ReadSystemTable:
    """Ask for the rows of a system table that the principal of a statement may see.

    Attributes:
        request: number of the request, for its answer.
        statement: number of the statement.
        table: name within the schema.
    """

    request: int
    statement: int
    table: str


@dataclass(frozen=True)
class SystemRows:
    """The answer to `ReadSystemTable`: rows, or an error."""

    request: int
    rows: pa.Table | LanceGatewayError
