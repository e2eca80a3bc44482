"""What tests of `adbc_ingest` share."""

from typing import Any

import adbc_driver_flightsql.dbapi as flightsql
import pyarrow as pa
import pytest

from tests.gateway.protocol.test_errors import assert_clean

ROWS = pa.table({"ints": pa.array([42, -42, None], pa.int64()), "strs": ["a", None, "c"]})


def read(cursor: Any, table: str, order: str = "1") -> pa.Table:
    quoted = table.replace('"', '""')
    cursor.execute(f'SELECT * FROM "{quoted}" ORDER BY {order}')
    return cursor.fetch_arrow_table()


def refusal(cursor: Any, *arguments: Any, **options: Any) -> str:
    """What the gateway says to an ingestion that fails."""
    with pytest.raises(flightsql.Error) as caught:
        cursor.adbc_ingest(*arguments, **options)
    assert_clean(str(caught.value))
    return str(caught.value)
