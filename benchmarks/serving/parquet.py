"""The newest rows of a table as one Parquet file, for servers that do not read Lance."""

from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.reports.context import open_engine
from benchmarks.reports.queries import TABLE_NAME
from benchmarks.tables.table import BenchTable

# Small groups and a page index in key order: a reader that prunes finds a key in one page of each column.
_ROW_GROUP_ROWS = 131_072
_FILE = "newest.parquet"


def write_newest_rows(table: BenchTable) -> Path:
    """Return the Parquet file of every row in key order; write it beside the table if it is missing."""
    path = table.root / _FILE
    if not path.exists():
        engine = open_engine(table)
        try:
            rows = engine.execute(f"SELECT * FROM {TABLE_NAME}").read_all().sort_by("id")
        finally:
            engine.close()
        table.answers.check_count(rows.num_rows)
        # Renamed when complete, so that an interrupted run leaves nothing that a later one would trust.
        draft = path.with_suffix(".draft")
        pq.write_table(rows, draft, row_group_size=_ROW_GROUP_ROWS, write_page_index=True)
        draft.rename(path)
    return path
