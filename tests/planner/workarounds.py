"""Statements that DataFusion alone gets wrong: why each check, rewrite and option of the planner is there.

There is one file of `tests/planner/data/workarounds/` for each of them, and cases have these parts:

    ## what goes wrong
    the statement
    --
    the right answer, a line for each row: the values divided by " | "
    --
    a part of the error with which the gateway refuses the statement; without it, the gateway answers

An answer without rows is `(no rows)`. All statements are over the tables of `TABLES`.

    python -m tests.planner.workarounds

writes the table of mistakes in docs/sql.md again.
"""

import datetime as dt
import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import pyarrow as pa
from datafusion import SessionConfig, SessionContext

from tests.planner.titled import DATA, Case, read_titled_file

FILES: Final = tuple(sorted((DATA / "workarounds").glob("*.sql")))
DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "sql.md"
_BEGIN: Final = "<!-- made by tests/planner/workarounds.py -->\n"
_END: Final = "<!-- end of what it made -->\n"
_WORDS: Final = ("x", "y", None, "yy")
_NAN: Final = math.nan
_INF: Final = math.inf
_MOMENT: Final = dt.datetime(2024, 2, 29, 23, 59, 59, 500_000)

TABLES: Final[Mapping[str, pa.Table]] = MappingProxyType(
    {
        "t": pa.table(
            {
                "id": pa.array(range(40), pa.int64()),
                "a": pa.array([None if one % 11 == 0 else one % 7 for one in range(40)], pa.int64()),
                "c": pa.array([_WORDS[one % 4] for one in range(40)]),
            }
        ),
        "u": pa.table(
            {
                "id": pa.array([2 * one for one in range(40)], pa.int64()),
                "a": pa.array([None if one % 9 == 0 else one % 5 for one in range(40)], pa.int64()),
                "c": pa.array([_WORDS[(one + 1) % 4] for one in range(40)]),
            }
        ),
        "m": pa.table(
            {
                "id": pa.array(range(10), pa.int64()),
                "n": pa.array([None, 3, None, None, 2, None, None, 4, 1, None], pa.int64()),
                "s": ["b", None, None, None, "a", "c", None, None, None, "d"],
                "g": pa.array([0, 0, 0, 1, 1, 1, 2, 2, 3, None], pa.int64()),
                "f": pa.array([1.0, _NAN, 0.5, _NAN, 2.0, None, _NAN, None, None, -1.0]),
                "edge": pa.array([_INF, _INF, _INF, -_INF, -_INF, None, _INF, _NAN, 7.0, None]),
                "whole": pa.array([_MOMENT.replace(microsecond=0)] * 10, pa.timestamp("s")),
                "fine": pa.array([_MOMENT] * 10, pa.timestamp("ns")),
            }
        ),
        "v": pa.table({"id": [1, 2, 3, 4], "n": [1, 2, None, None], "s": ["a", None, None, "b"]}),
        "w": pa.table({"id": [1, 2, 3, 4], "n": [1, 2, None, None], "s": ["a", None, None, "b"]}),
        "late": pa.table(
            {
                "id": pa.array([1, 2, 3], pa.int64()),
                "moment": pa.array(
                    [
                        dt.datetime(1500, 3, 4, 5, 6),
                        _MOMENT.replace(microsecond=0),
                        dt.datetime(9999, 12, 31),
                    ],
                    pa.timestamp("us"),
                ),
            }
        ),
    }
)
"""The tables of all statements."""


def read_cases() -> Iterator[tuple[str, Case]]:
    """Yield all cases, each with the name of its file."""
    for file in FILES:
        for case in read_titled_file(file):
            yield file.stem, case


def run_bare(sql: str, partitions: int) -> str:
    """Return what DataFusion answers without the gateway, or the error with which it fails."""
    context = SessionContext(SessionConfig().with_target_partitions(partitions))
    for name, rows in TABLES.items():
        batches = rows.to_batches(max_chunksize=max(1, rows.num_rows // partitions))
        context.register_record_batches(name, [[batch] for batch in batches])
    try:
        return write_answer(sql, context.sql(sql).to_arrow_table())
    except Exception as error:  # noqa: BLE001 - the bindings raise no narrower type
        return f"fails: {error}"


def write_answer(sql: str, rows: pa.Table) -> str:
    """Return an answer as text; in the order of its lines, where the statement has no order."""
    columns = [column.to_pylist() for column in rows.columns]
    lines = [
        " | ".join("NULL" if one is None else str(one) for one in row) for row in zip(*columns, strict=True)
    ]
    if "ORDER BY" not in sql.rpartition(")")[2]:
        lines.sort()
    return "\n".join(lines) or "(no rows)"


def make_documentation() -> str:
    """Return the table of all cases, as it is in the documentation."""
    rows = [
        f"| {case.title} | `{_write_cell(case.parts[0])}` | {'refused' if case.parts[2:] else 'right'} |"
        for _, case in sorted(read_cases(), key=lambda one: one[1].title)
    ]
    head = ["| what DataFusion gets wrong | for example | the gateway |", "|---|---|---|"]
    return "\n".join([*head, *rows]) + "\n"


def _write_cell(sql: str) -> str:
    return " ".join(sql.split()).replace("|", "\\|")


def split_document() -> tuple[str, str, str]:
    """Return the documentation before the table, the table, and what comes behind it."""
    before, _, rest = DOCUMENT.read_text().partition(_BEGIN)
    table, _, after = rest.partition(_END)
    return before + _BEGIN, table, _END + after


def main() -> int:
    """Write the table into the documentation."""
    before, _, after = split_document()
    DOCUMENT.write_text(f"{before}{make_documentation()}{after}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
