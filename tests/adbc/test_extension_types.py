"""Columns of Arrow's extension types that others wrote: UUIDs and JSON, for clients of Arrow and of JDBC."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import adbc_driver_manager
import lance
import pyarrow as pa
import pytest
from adbc_driver_flightsql import DatabaseOptions
from adbc_driver_flightsql import dbapi as flightsql

from tests.gateway.conftest import serving

IDS = [UUID(int=5), None, UUID("12345678-1234-5678-9abc-def012345678")]
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3]),
        "u": pa.array([one and one.bytes for one in IDS], pa.uuid()),
        "j": pa.array(['{"a":1}', None, "2"], pa.json_()),
    }
)
HEADER = f"{DatabaseOptions.RPC_CALL_HEADER_PREFIX.value}x-lance-gateway-types"


@pytest.fixture(scope="module", params=["arrow", "jdbc"])
def typed(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Any]]:
    """The types that a client asks for, and a cursor of it."""
    root = tmp_path_factory.mktemp("extensions")
    lance.write_dataset(ROWS, root / "t.lance")
    with (
        serving(root) as server,
        flightsql.connect(
            f"grpc://127.0.0.1:{server.port}", db_kwargs={HEADER: request.param}, autocommit=True
        ) as connection,
        connection.cursor() as cursor,
    ):
        yield request.param, cursor


def test_uuids_are_text_where_the_client_knows_no_extension(typed: tuple[str, Any]) -> None:
    types, cursor = typed
    cursor.execute("SELECT id, u FROM t ORDER BY id")
    table = cursor.fetch_arrow_table()
    assert table.schema.field("u").type == (pa.string() if types == "jdbc" else pa.uuid())
    assert table["u"].to_pylist() == [str(one) if one and types == "jdbc" else one for one in IDS]
    # Inside of others, and as the result of a function, they are what they are stored as.
    cursor.execute("SELECT [u] AS l, max(u) OVER () AS m FROM t WHERE id = 3")
    assert cursor.fetch_arrow_table()["m"].to_pylist() == [IDS[2].bytes]  # type: ignore[union-attr]


@pytest.mark.parametrize("value", [str(IDS[2]), str(IDS[2]).upper()])
def test_a_uuid_may_be_bound_as_text(typed: tuple[str, Any], value: str) -> None:
    _, cursor = typed
    cursor.execute("SELECT id FROM t WHERE u = ?", (value,))
    assert cursor.fetchall() == [(3,)]
    cursor.execute("SELECT id FROM t WHERE u = from_hex(replace(?, '-', ''))", (value,))
    assert cursor.fetchall() == [(3,)]


def test_a_text_that_is_none_is_refused(typed: tuple[str, Any]) -> None:
    _, cursor = typed
    with pytest.raises(adbc_driver_manager.ProgrammingError, match=r"\$1 is a UUID, .* not 'east'"):
        cursor.execute("SELECT id FROM t WHERE u = ?", ("east",))


def test_columns_are_described_by_what_is_stored(typed: tuple[str, Any]) -> None:
    types, cursor = typed
    cursor.execute("DESCRIBE t")
    rows = {row[0]: row for row in cursor.fetchall()}
    assert "extension" not in str(rows)
    cursor.execute("SELECT u, j FROM t")
    names = [field.metadata[b"ARROW:FLIGHT:SQL:TYPE_NAME"] for field in cursor.fetch_record_batch().schema]
    assert names == [b"VARCHAR" if types == "jdbc" else b"BYTEA", b"VARCHAR"]


@pytest.mark.parametrize(
    ("cast", "value"),
    [("CAST(j AS BIGINT)", 2), ("TRY_CAST(j AS INT)", 2), ("arrow_cast(j, 'LargeBinary')", b"2")],
)
def test_casts_have_the_type_that_they_name(typed: tuple[str, Any], cast: str, value: object) -> None:
    _, cursor = typed
    cursor.execute(f"SELECT {cast} AS c FROM t WHERE id = 3")
    assert cursor.fetchall() == [(value,)]
    cursor.execute("SELECT CAST(coalesce(j, j) AS BIGINT), sum(CAST(j AS INT)) OVER () FROM t WHERE id = 3")
    assert cursor.fetchall() == [(2, 2)]
