"""A statement that the dialect reads and writes again has the plan of its text."""

from collections.abc import Callable, Iterator
from functools import partial

import pyarrow as pa
from datafusion import DataFrame, SessionContext

from lance_gateway.planner.sql.tree.dialect import parse_query, write_sql
from tests.planner import workarounds
from tests.planner.binding import test_bind
from tests.planner.names import bound, context_with
from tests.planner.sql.dialects.test_dialects import OTHERS, ROWS
from tests.planner.sql.rules import test_rules
from tests.planner.titled import DATA, read_titled, read_titled_file

NOT_READ = {
    "describe a table",
    "describe a view",
    "describe a query",
}
"""Statements with syntax that sqlglot does not read, or mistakes: no rule changes them."""
CALLS = (
    *("position(s, s || 'x')", "position('x' IN s)", "strpos(s, 'x')", "substring(s, 1, 2)", "trim(s, 'x')"),
    *(
        "substring(s FROM 1 FOR 2)",
        "trim(BOTH 'x' FROM s)",
        "overlay(s PLACING 'x' FROM 1 FOR 2)",
        "left(s, 1)",
    ),
    *("extract(year FROM ts)", "extract(doy FROM ts)", "to_char(ts, '%Y')", "date_bin(INTERVAL '1 day', ts)"),
    *("string_agg(s, ',')", "array_agg(s ORDER BY id)", "count(DISTINCT s)", "sum(i) FILTER (WHERE i > 1)"),
    *("log(10, i)", "round(i / 3, 1)", "mod(i, 2)", "i % 2", "i / 2", "i & 1", "i | 1", "i << 1", "-i"),
    *("TRY_CAST(s AS INT)", "CAST(s AS BYTEA)", "s::VARCHAR(3)", "CAST(i AS REAL)", "CAST(i AS DECIMAL(10))"),
    *(
        "{'a': 1}",
        "[1, 2][1]",
        "named_struct('a', 1)",
        "X'00'",
        "MAP {'a': i, 'b': 2}['b']",
        "MAP {'a': MAP {1: s}}",
        "map(['a'], [1])",
        "`s` || 'x'",
        "CAST(i AS FLOAT)",
        "CAST(i AS FLOAT(24))",
        "s::FLOAT8",
        "CAST([i, 2] AS FLOAT[2])",
        "[i]::BIGINT[]",
        "s SIMILAR TO 'a'",
        "s LIKE 'a!%' ESCAPE '!'",
    ),
    *(
        "i IS DISTINCT FROM id",
        "NOT i BETWEEN 1 AND 2",
        "NOT TRUE",
        "(i, 1) = (1, 1)",
        "s !~ 'a'",
    ),
    *("at AT TIME ZONE 'UTC'", "current_date", "DATE '2024-01-01'", "TIME '10:00'", "1e3", ".5"),
    *("nth_value(s, 1 ORDER BY id)", "row_number() OVER (ORDER BY id DESC NULLS LAST)", "1 = ANY([1, 2])"),
)
OTHERWISE = {"correlated_outer_joins", "a recursive CTE may begin with values"}
"""These statements have VALUES in WITH, which become derived tables with the same columns."""


def workarounds_context() -> SessionContext:
    context = SessionContext()
    for name, rows in workarounds.TABLES.items():
        context.register_record_batches(name, [rows.to_batches()])
    return context


def rules_context() -> SessionContext:
    context = SessionContext()
    for name, columns in test_rules.TABLES.items():
        rows = pa.RecordBatch.from_pylist([], pa.schema(list(columns.items())))
        context.register_record_batches(name, [[rows]])
    return context


def dialects_context() -> SessionContext:
    context = SessionContext()
    context.register_record_batches("t", [ROWS.to_batches()])
    return context


def list_statements() -> Iterator[tuple[str, Callable[[], SessionContext], str]]:
    for folder, make_context in (("rules", rules_context), ("workarounds", workarounds_context)):
        for path in sorted((DATA / folder).glob("*.sql")):
            if path.stem not in OTHERWISE:
                for case in read_titled_file(path):
                    yield f"{path.stem}: {case}", make_context, case.parts[0]
    for dialect in ("duckdb", *OTHERS):
        for case in read_titled(f"dialect_{dialect}.sql"):
            yield f"{dialect}: {case}", dialects_context, case.parts[1]
    for call in CALLS:
        yield f"calls: {call}", rules_context, f"SELECT {call} AS x FROM t"
    for case in test_bind.RUNNABLE:
        if case.title in OTHERWISE:
            continue
        statement = bound(case.parts[0])
        tables = {one.private_name: test_bind.TABLES[one.table] for one in statement.references}
        yield f"binding: {case}", partial(context_with, tables), statement.text


def show(frame: DataFrame) -> str:
    """The optimised plan; below windows, the columns come in any order."""
    lines = []
    for line in frame.optimized_logical_plan().display_indent_schema().splitlines():
        before, _, fields = line.partition(" [")
        lines.append(f"{','.join(sorted(before.split(', ')))} [{','.join(sorted(fields.split(', ')))}")
    return "\n".join(lines)


def test_statements_keep_their_plans() -> None:
    """Those that have none over these tables, or only with rules, are left out, and are few."""
    compared, left_out, unread, changed = 0, [], set(), set()
    for title, make_context, sql in list_statements():
        context, root = make_context(), parse_query(sql)
        if root is None:
            unread.add(title.partition(": ")[2])
            continue
        read = root.copy()
        written = write_sql(root)
        changed |= {title} if root != read else set()
        try:
            plan = show(context.sql(sql))
        except Exception:  # noqa: BLE001 - the bindings have no types of errors
            left_out.append(title)
            continue
        # NOT x IN (..) and x NOT IN (..) are one to the optimizer.
        assert show(context.sql(written)) == plan, title
        compared += 1
    assert not changed, "to write a tree changes it"
    assert unread == NOT_READ
    assert compared > 300
    assert len(left_out) < compared / 6, left_out
