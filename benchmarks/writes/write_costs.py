"""The cost of statements that write one row and many, and of plain Lance commits."""

from collections.abc import Callable, Iterator
from functools import partial

import lance
import numpy as np

from benchmarks.reports.answers import WrongAnswerError
from benchmarks.reports.context import BenchContext
from benchmarks.reports.queries import TABLE_NAME
from benchmarks.reports.report import Finding, format_milliseconds
from benchmarks.reports.timing import interleave, time_call
from benchmarks.tables.write_table import WriteShape, create_scratch, create_table, generate_new_keys
from benchmarks.writes.write_sides import serve_table

_ROWS = 100_000
_REGIONS = 4
_SOURCE = "source"
_UPDATE = f"UPDATE {TABLE_NAME} SET price = price + 1 WHERE id = $1"
_DELETE = f"DELETE FROM {TABLE_NAME} WHERE id = $1"
_MERGE = f"""
    MERGE INTO {TABLE_NAME} AS t USING {_SOURCE} AS s ON t.id = s.id
    WHEN MATCHED THEN UPDATE SET price = s.price
    WHEN NOT MATCHED THEN INSERT (id, grp, at, price, name) VALUES (s.id, s.grp, s.at, s.price, s.name)"""
_INSERT_SELECT = f"INSERT INTO {TABLE_NAME} SELECT id + 1000000, grp, at, price, name FROM {_SOURCE}"
_INSERT = f"INSERT INTO {TABLE_NAME} VALUES ($1, $2, $3, $4, $5)"
_COMMITS = 10


def run(context: BenchContext) -> Iterator[Finding]:
    """Statements of one row, statements of many, plain commits beside them."""
    settings, shape = context.settings, WriteShape(min(_ROWS, context.settings.rows), _REGIONS)
    rounds, many = settings.lookup_rounds // 3 or 1, settings.merge_rows
    with create_scratch(settings) as directory, serve_table(directory / "root", shape) as cursors:
        cursor = cursors()
        # Half of the source's keys are the table's.
        source = shape.rows_of(np.arange(shape.rows - many // 2, shape.rows - many // 2 + many), seed=5)
        lance.write_dataset(source, str(directory / "root" / f"{_SOURCE}.lance"))
        keys = np.random.default_rng(4).permutation(shape.rows // 2)
        plain = create_table(directory / "plain", shape)

        def create_statement_runner(sql: str, first: int) -> Callable[[int], None]:
            kept = cursors()

            def execute(number: int) -> None:
                key = int(keys[first + number])
                kept.executemany(sql, [(key,)])
                if kept.rowcount != 1:
                    raise WrongAnswerError(f"{sql} with {key} returned {kept.rowcount} rows")

            return execute

        def commit(number: int) -> None:
            rows = shape.rows_of(keys[number : number + 1], seed=number + 9)
            merge = lance.dataset(plain.uri).merge_insert("id")
            merge.when_matched_update_all().when_not_matched_insert_all().execute(rows)

        statements = {
            "UPDATE": create_statement_runner(_UPDATE, 10),
            "DELETE": create_statement_runner(_DELETE, 1_000),
        }
        samples = interleave(statements, rounds=rounds, warmups=3)
        commits = interleave({"commit": commit}, rounds=min(rounds, _COMMITS)).median_ms("commit")
        for name in statements:
            p50, p99 = samples.median_ms(name), samples.percentile_ms(name, 99)
            yield Finding(
                f"{name} of a row by its key, p50",
                format_milliseconds(p50),
                f"Lance's merge_insert and commit {format_milliseconds(commits)}",
                commits / p50,
                note=f"value = how much faster; p99 {format_milliseconds(p99)}",
            )
        for name, sql in (("MERGE", _MERGE), ("INSERT .. SELECT", _INSERT_SELECT)):
            seconds = _measure_median(partial(cursor.execute, sql), 3)
            yield _build_finding(f"{name} of {many:,} rows", many, seconds)
        rows = shape.rows_of(generate_new_keys(shape, 5_000_000, many))
        seconds = _measure_median(lambda: cursor.executemany(_INSERT, rows), 3)
        yield _build_finding(f"executemany of an INSERT with {many:,} rows", many, seconds)
        theirs = _measure_median(lambda: lance.write_dataset(rows, plain.uri, mode="append"), 3)
        yield _build_finding(f"plain Lance append and commit of {many:,} rows, no gateway", many, theirs)


def _measure_median(action: Callable[[], object], rounds: int) -> float:
    return float(np.median([time_call(action) for _ in range(rounds)]))


def _build_finding(title: str, rows: int, seconds: float) -> Finding:
    return Finding(title, f"{rows / seconds:,.0f} rows/s", "", seconds * 1e3, "ms")
