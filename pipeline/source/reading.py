"""Reading through the gateway: one statement, planned once, and its parts on executors.

All parts read one pinned snapshot, and their tickets can be redeemed any number of times: a task that
Spark repeats, or runs twice, reads the same rows again from the start. Rows that were given to Spark are
never given again within an attempt: a stream that breaks off fails it.
"""

import difflib
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from lance_gateway.memwal.errors import InvalidInputError, NotFoundError, UnavailableError
from lance_gateway.pipeline.source.client import (
    Endpoint,
    Gateway,
    call_first_available,
    raise_first,
    rotate_urls,
)
from lance_gateway.pipeline.source.filters import translate_filter
from lance_gateway.pipeline.source.options import (
    Options,
    build_select,
    describe_options,
    is_wrapped,
    quote_text,
)
from lance_gateway.pipeline.source.types import arrow_schema, check_given, conform

_RENEWED_SECONDS_BEFORE = 60.0


@dataclass(frozen=True)
class Parts(InputPartition):
    """Some parts of a pinned snapshot.

    Attributes:
        number: of the partition, from 0.
        endpoints: that are read one after the other.
    """

    number: int
    endpoints: tuple[Endpoint, ...]


@dataclass(frozen=True)
class Whole(InputPartition):
    """A statement that can't be divided: whoever reads it runs it, a repeated task again.

    Attributes:
        statement: the statement.
        number: of the partition, from 0.
    """

    statement: str
    number: int = 0


@dataclass(frozen=True)
class DirectParts(InputPartition):
    """Some parts of a pinned snapshot that an executor reads by itself.

    Attributes:
        tickets: that are read one after the other.
        version: of the gateway that planned.
    """

    tickets: tuple[bytes, ...]
    version: str


class GatewayReader(DataSourceReader):
    """Plans on the driver, reads on executors.

    Args:
        options: what is read.
        schema: the columns that Spark wants, in this order.

    Raises:
        InvalidInputError: the statement changes something or takes parameters, or the schema does not fit it.
    """

    def __init__(self, options: Options, schema: StructType) -> None:
        self.options = options
        self.expected = arrow_schema(schema)
        self.conditions: tuple[str, ...] = ()
        self.found = columns_of(options)
        check_given(schema, self.found)
        # In the order of the source: in another one the statement would be more than a scan.
        self.columns = tuple(name for name in self.found.names if name in schema.names)

    def partitions(self) -> list[InputPartition]:
        """Pin a snapshot, and divide it."""
        with raise_first():
            return self._plan_partitions()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition, in Arrow batches."""
        with raise_first():
            for batch in self._batches(partition):
                if batch.num_rows:
                    yield conform(batch, self.expected)

    def _plan_partitions(self) -> list[InputPartition]:
        options = self.options
        if options.changes is not None:
            # A repeated task asks again, for the same changes.
            since, until = (quote_text(read_position(options, at)) for at in (options.since, options.until))
            return self.divide_changes(since, until)
        wanted = options.endpoints
        statement = build_select(options, self.columns, self.conditions)

        def plan(gateway: Gateway) -> tuple[list[Endpoint], str]:
            # One part alone would not be pinned.
            found = gateway.endpoints(statement, max(wanted, 2))
            return found, gateway.version() if options.mode == "direct" else ""

        endpoints, version = call_first_available(options, plan)
        if any(endpoint.expires_at is None for endpoint in endpoints):
            if options.mode == "direct":
                self._check_lookup(statement)
            return [Whole(statement)]
        shares = [endpoints[number::wanted] for number in range(min(wanted, len(endpoints)))]
        if options.mode == "direct":
            return [DirectParts(tuple(one.ticket for one in share), version) for share in shares]
        return [Parts(number, tuple(share)) for number, share in enumerate(shares)]

    def divide_changes(self, since: str, until: str) -> list[InputPartition]:
        """Divide the changes between two states by their keys, where there are many of them.

        Args:
            since: token of the older state, as SQL.
            until: token of the newer one, as SQL.
        """
        options = replace(self.options, since=since, until=until)
        count = _count_parts(options)
        parts = [(number, count) for number in range(1, count + 1)] if count > 1 else [None]
        return [
            Whole(build_select(replace(options, part=part), self.columns, self.conditions), at)
            for at, part in enumerate(parts)
        ]

    def _check_lookup(self, statement: str) -> None:
        """Let only those rows of a table through the gateway that are found by their keys.

        Raises:
            InvalidInputError: the statement is something else.
        """
        if self.conditions:
            bare = build_select(self.options, self.columns, ())
            found = call_first_available(self.options, lambda gateway: gateway.endpoints(bare, 2))
            if all(one.expires_at is not None for one in found):
                return
        raise InvalidInputError(
            "option mode = 'direct' reads what is no more than the scan of one table that the user may see "
            "without restrictions, and this is more, or an access policy applies: use mode = 'gateway' for "
            f"{statement!r}"
        )

    def _batches(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, DirectParts):
            from lance_gateway.pipeline.source.direct import rows_of  # noqa: PLC0415 - loads the planner, in executors only

            for ticket in partition.tickets:
                yield from rows_of(ticket, partition.version, self.options)
        elif isinstance(partition, Parts):
            for endpoint in partition.endpoints:
                yield from _read_endpoint(self.options, endpoint, partition.number)
        elif isinstance(partition, Whole):
            statement = partition.statement
            yield from _read_from_any(
                self.options, partition.number, lambda gateway: gateway.query(statement)
            )


class PushingReader(GatewayReader):
    """The same, for sessions in which Spark offers its filters."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Take what means the same to the gateway, and hand back the rest."""
        if not is_wrapped(self.options):
            return filters
        found = [(one, translate_filter(one, self.found)) for one in filters]
        self.conditions = tuple(one.sql for _, one in found if one is not None)
        return [one for one, pushed in found if pushed is None or not pushed.is_exact]


def columns_of(options: Options) -> pa.Schema:
    """The columns of what is read, as the gateway tells them and in its order; nothing is executed.

    Raises:
        InvalidInputError: the statement changes something, or takes parameters.
    """
    found = _describe_read(options, describe_options(options))
    missing = next((name for name in options.columns if name not in found.names), None)
    if missing is not None:
        close = difflib.get_close_matches(missing, found.names, n=2, cutoff=0.5)
        hint = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(found.names)}"
        raise InvalidInputError(f"option columns names {missing!r}, which is not there: {hint}")
    return pa.schema([field for field in found if not options.columns or field.name in options.columns])


def read_position(options: Options, at: str | None = None) -> str:
    """Return the token of a state of the table.

    Args:
        options: name the table.
        at: the state, as SQL; None for now.
    """
    state = "" if at is None else f", at => {at}"
    return str(_ask_position(options, "_position", state))


def _count_parts(options: Options) -> int:
    """Return into how many parts changes are divided; each part reads all rows that may have changed."""
    if options.endpoints == 1:
        return 1
    states = f", at => {options.until}, since => {options.since}"
    rows = _ask_position(options, "_rows", states)
    # Who sees a part of the rows is not told how many there are.
    return 1 if not isinstance(rows, int) else max(1, min(options.endpoints, rows // options.part_rows))


def _ask_position(options: Options, column: str, states: str) -> object:
    named = f"{quote_text(options.table or '')}{states}"
    statement = f"SELECT {column} FROM lance_position({named})"  # noqa: S608 - quoted

    def ask(gateway: Gateway) -> object:
        (batch,) = (one for one in gateway.query(statement) if one.num_rows)
        value: object = batch.column(0)[0].as_py()
        return value

    return call_first_available(options, ask)


def reorder_columns(found: pa.Schema, options: Options) -> pa.Schema:
    """The columns in the order in which they were asked for."""
    return pa.schema([found.field(name) for name in options.columns]) if options.columns else found


def _describe_read(options: Options, statement: str) -> pa.Schema:
    found = call_first_available(options, lambda gateway: gateway.prepare(statement))
    if found.is_update:
        raise InvalidInputError(f"option query changes something, and a read must not: {statement!r}")
    if found.parameters:
        raise InvalidInputError(
            f"option query has {found.parameters} parameters without values: {statement!r}"
        )
    return found.schema


def _read_endpoint(options: Options, endpoint: Endpoint, start: int) -> Iterator[pa.RecordBatch]:
    def read(gateway: Gateway) -> Iterator[pa.RecordBatch]:
        if endpoint.expires_at is not None and endpoint.expires_at - time.time() < _RENEWED_SECONDS_BEFORE:
            return gateway.read(gateway.renew(endpoint))
        return gateway.read(endpoint)

    def renew_and_read(gateway: Gateway) -> Iterator[pa.RecordBatch]:
        return gateway.read(gateway.renew(endpoint))

    has_begun = False
    try:
        for batch in _read_from_any(options, start, read):
            has_begun = True
            yield batch
    except NotFoundError:
        if has_begun or endpoint.expires_at is None:
            raise
        # It may have expired by the gateway's clock.
        yield from _read_from_any(options, start, renew_and_read)


def _read_from_any(
    options: Options, start: int, read: Callable[[Gateway], Iterator[pa.RecordBatch]]
) -> Iterator[pa.RecordBatch]:
    """Batches from the first gateway that gives one; once it has, there is no other."""
    urls = rotate_urls(options.urls, start)
    for number, url in enumerate(urls, start=1):
        with Gateway(url, options) as gateway:
            try:
                batches = read(gateway)
                first = next(batches, None)
            except UnavailableError:
                if number == len(urls):
                    raise
                continue
            if first is not None:
                yield first
                yield from batches
            return
