"""Bulk ingest by ADBC into four regions, against the same batches put into Lance's own writers.

Lance's side has its batches split by region beforehand, one `ShardWriter` for each region and a thread for
each of these, in one process with the batches: no client, no network, no routing. Both sides answer durably,
and flush full MemTables meanwhile.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import adbc_driver_flightsql.dbapi as flight_sql
import pyarrow as pa

from benchmarks.reports.answers import WrongAnswerError
from benchmarks.reports.context import BenchContext
from benchmarks.reports.queries import COUNT, TABLE_NAME
from benchmarks.reports.report import Bar, Finding
from benchmarks.reports.timing import Samples, interleave, time_call
from benchmarks.servers.server import start_gateway
from benchmarks.tables.write_table import (
    WriteShape,
    WriteTable,
    create_scratch,
    create_table,
    generate_new_keys,
)

_BASE_ROWS = 1_000
_REGIONS = 4
_BATCH_ROWS = 10_000
_SHAPES = {
    "5 columns": WriteShape(_BASE_ROWS, _REGIONS),
    "5 columns and a vector of 128": WriteShape(_BASE_ROWS, _REGIONS, 128),
}
_LANCE_DEFAULT_SHARE = 5


def run(context: BenchContext) -> Iterator[Finding]:
    """Ingest into a narrow table, then into one with vectors and a quarter of the rows."""
    rows = context.settings.ingest_rows
    yield from _measure(context, "5 columns", rows, Bar(0.6, "at least"))
    yield from _measure(context, "5 columns and a vector of 128", rows // 4, Bar(0.6, "at least"))


def _measure(context: BenchContext, label: str, count: int, bar: Bar) -> Iterator[Finding]:
    shape = _SHAPES[label]
    batches = shape.rows_of(generate_new_keys(shape, 0, count), seed=1).to_batches(_BATCH_ROWS)
    with create_scratch(context.settings) as directory, ExitStack() as stack:
        create_table(directory / "gateway", shape)
        theirs = create_table(directory / "lance", shape)
        server = stack.enter_context(start_gateway(directory / "gateway"))
        connection = stack.enter_context(flight_sql.connect(server.uri, autocommit=True))

        def gateway(_: int) -> None:
            with connection.cursor() as cursor:
                cursor.adbc_ingest(
                    TABLE_NAME, pa.RecordBatchReader.from_batches(shape.schema, batches), mode="append"
                )

        lance = stack.enter_context(RegionWriters(theirs, batches))
        samples = interleave(
            {"gateway": gateway, "lance": lambda _: lance.put()},
            rounds=max(1, context.settings.rounds // 3),
        )
        with connection.cursor() as cursor:
            cursor.execute(COUNT)
            found = cursor.fetchone()
        if found != (_BASE_ROWS + count,):
            raise WrongAnswerError(f"{found} rows after the ingest of {count} on top of {_BASE_ROWS}")
        slow = _measure_lance_defaults(
            directory / "slow", shape, batches[: len(batches) // _LANCE_DEFAULT_SHARE]
        )

    def describe(side: str) -> str:
        return _format_rate(samples, side, count)

    megabytes = sum(batch.nbytes for batch in batches) / 2**20
    yield Finding(
        f"ingest of {count:,} rows, {label}",
        describe("gateway"),
        f"ShardWriter.put {describe('lance')}",
        samples.ratio("lance", "gateway"),
        bar=bar,
        note=(
            f"value = throughput; {_REGIONS} regions, batches of {_BATCH_ROWS:,} rows, {megabytes:,.0f} MiB; "
            "Lance's writers with max_wal_buffer_size=1, as the gateway's; "
            f"with Lance's default {slow:,.0f} rows/s"
        ),
    )


def _format_rate(samples: Samples, side: str, rows: int) -> str:
    per_second = rows / samples.median_ms(side) * 1e3
    return f"{per_second:,.0f} rows/s"


def _measure_lance_defaults(directory: Path, shape: WriteShape, batches: Sequence[pa.RecordBatch]) -> float:
    """Return rows per second of durable puts by writers with Lance's own options."""
    table = create_table(directory, shape)
    with RegionWriters(table, batches, {}) as writers:
        rows = sum(batch.num_rows for batch in batches)
        return float(rows / time_call(writers.put))


class RegionWriters:
    """One writer per region of a table, each with a thread of its own and its share of each batch.

    Args:
        table: to write to.
        batches: to split.
        options: of the writers.
    """

    def __init__(
        self,
        table: WriteTable,
        batches: Sequence[pa.RecordBatch],
        options: dict[str, int] | None = None,
    ) -> None:
        split = [table.split(pa.Table.from_batches([batch])) for batch in batches]
        self._parts = [
            [parts[region] for parts in split if parts[region].num_rows] for region in range(_REGIONS)
        ]
        options = {"max_wal_buffer_size": 1} if options is None else options
        self._writers = [
            table.open().mem_wal_writer(region, durable_write=True, **options) for region in table.regions
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for writer in self._writers:
            writer.close()

    def put(self) -> None:
        """Put every part; return when all are durable."""
        problems: list[BaseException] = []

        def put_all(writer: Any, parts: Sequence[pa.Table]) -> None:  # noqa: ANN401 - lance types
            try:
                for part in parts:
                    writer.put(part)
            except BaseException as error:  # noqa: BLE001 - raised below
                problems.append(error)

        pairs = zip(self._writers, self._parts, strict=True)
        threads = [threading.Thread(target=put_all, args=pair) for pair in pairs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if problems:
            raise problems[0]
