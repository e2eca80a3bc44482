"""A group-by while another process writes through the same gateway, against the same group-by at rest.

Rest and writing take turns on one table. Each stretch of writing is compared with the rest before it and the
rest after it, so both sides read as many fresh rows on the average. MemTables are a tenth of their usual
size, so that flushes fall into the measured time more often than they usually would.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import adbc_driver_flightsql.dbapi as flight_sql
import numpy as np
import pyarrow as pa

from benchmarks.reports.answers import WrongAnswerError
from benchmarks.reports.context import BenchContext
from benchmarks.reports.plots import Curve, Plot
from benchmarks.reports.queries import COUNT, GROUP_BY, TABLE_NAME
from benchmarks.reports.report import Bar, Finding, format_milliseconds
from benchmarks.reports.timing import time_call
from benchmarks.servers.paced_writer import PacedWriter, start_paced_writer
from benchmarks.servers.server import start_gateway
from benchmarks.tables.write_table import WriteShape, create_scratch, create_table, generate_new_keys

_REGIONS = 4
_BATCH_ROWS = 500
_MEMTABLE_ROWS = 10_000
_AT_FIRST = 40_000
_STRETCHES = 3
_SCANS = 25


def run(context: BenchContext) -> Iterator[Finding]:
    """One rate after the other; the second one is judged."""
    settings = context.settings
    shape = WriteShape(max(1_000, settings.rows // 5), _REGIONS)
    points = []
    with create_scratch(settings) as directory, ExitStack() as stack:
        table = create_table(directory / "root", shape)
        configured = {"writes.max_memtable_rows": _MEMTABLE_ROWS}
        server = stack.enter_context(start_gateway(table.root, configured=configured))
        connection = stack.enter_context(flight_sql.connect(server.uri, autocommit=True))
        cursor = stack.enter_context(connection.cursor())
        writer = stack.enter_context(start_paced_writer(server.uri, _NewRows(shape)))
        cursor.adbc_ingest(TABLE_NAME, shape.rows_of(generate_new_keys(shape, 0, _AT_FIRST)), mode="append")
        for rate in settings.ingest_rates:
            finding = _measure(cursor, writer, rate, min(_SCANS, 2 * settings.rounds), settings.ingest_rates)
            points.append((rate, finding.value))
            yield finding
        cursor.execute(COUNT)
        found = cursor.fetchone()
        if found != (shape.rows + _AT_FIRST + writer.rows,):
            raise WrongAnswerError(f"{found} rows after {writer.rows} were acknowledged")
    title = f"Group-by over {shape.rows:,} rows while rows are written"
    plot = Plot(title, "rows/s written", "time against rest", [Curve("group-by", [(0, 1.0), *points])])
    plot.write(settings.plots_dir / "writes-scans.svg")


def _measure(
    cursor: flight_sql.Cursor, writer: PacedWriter, rate: int, scans: int, rates: tuple[int, ...]
) -> Finding:
    def scan() -> None:
        cursor.execute(GROUP_BY)
        cursor.fetch_arrow_table()

    def time_scan() -> float:
        return float(np.median([time_call(scan) for _ in range(scans)]))

    for _ in range(3):
        scan()
    rows, seconds = writer.rows, writer.seconds
    rests, stretches = [time_scan()], []
    for _ in range(_STRETCHES):
        writer.resume(rate)
        stretches.append(time_scan())
        writer.pause()
        scan()
        rests.append(time_scan())
    reached = (writer.rows - rows) / (writer.seconds - seconds)
    ratios = [
        writing / ((before + after) / 2)
        for writing, before, after in zip(stretches, rests, rests[1:], strict=False)
    ]
    return Finding(
        f"group-by while {rate:,} rows/s are written",
        format_milliseconds(float(np.median(stretches)) * 1e3),
        f"at rest {format_milliseconds(float(np.median(rests)) * 1e3)}",
        float(np.median(ratios)),
        bar=Bar(1.5) if rate == rates[:2][-1] else None,
        note=f"{reached:,.0f} rows/s were acknowledged, in batches of {_BATCH_ROWS}, into {_REGIONS} regions "
        f"with MemTables of {_MEMTABLE_ROWS:,} rows",
    )


@dataclass(frozen=True)
class _NewRows:
    """Rows of a shape with keys that were not there, some at a time."""

    shape: WriteShape

    def __call__(self, written: int) -> Sequence[tuple[str, pa.Table]]:
        keys = generate_new_keys(self.shape, _AT_FIRST + written, _BATCH_ROWS)
        return [(TABLE_NAME, self.shape.rows_of(keys, seed=written))]
