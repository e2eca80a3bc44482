"""Frames of pandas and polars over ADBC: modes of writing, and what reading takes."""

from collections.abc import Iterator
from itertools import count

import pandas as pd
import polars as pl
import pytest
from adbc_driver_flightsql import dbapi

from lance_gateway.gateway.server import GatewayServer
from tests.gateway.conftest import serving

FRAME = pd.DataFrame({"id": [1, 2, 3], "day": ["2026-01-01", None, "2026-01-03"], "share": [0.5, None, 1.5]})
_NAMES = (f"t{number}" for number in count())


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayServer]:
    with serving(tmp_path_factory.mktemp("frames")) as server:
        yield server


@pytest.fixture(scope="module")
def connection(gateway: GatewayServer) -> Iterator[dbapi.Connection]:
    with dbapi.connect(f"grpc://127.0.0.1:{gateway.port}", autocommit=True) as connection:
        yield connection


@pytest.fixture
def name() -> str:
    """A name that no table has."""
    return next(_NAMES)


def read_ids(connection: dbapi.Connection, name: str) -> list[int]:
    ids: list[int] = pd.read_sql(f"SELECT id FROM {name} ORDER BY id", connection)["id"].tolist()
    return ids


def test_delete_rows_replaces_rows_and_keeps_the_table(connection: dbapi.Connection, name: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, day VARCHAR, share DOUBLE)")
        cursor.execute(f"INSERT INTO {name} VALUES (9, NULL, NULL)")
    assert FRAME.to_sql(name, connection, index=False, if_exists="delete_rows") == 3
    assert read_ids(connection, name) == [1, 2, 3]
    FRAME.to_sql(name, connection, index=False, if_exists="append")
    assert read_ids(connection, name) == [1, 2, 3], "the table has lost its key"


def test_delete_rows_of_a_table_without_key_needs_autocommit(
    gateway: GatewayServer, connection: dbapi.Connection, name: str
) -> None:
    FRAME.to_sql(name, connection, index=False)
    FRAME.to_sql(name, connection, index=False, if_exists="delete_rows")
    assert read_ids(connection, name) == [1, 2, 3]
    with (
        dbapi.connect(f"grpc://127.0.0.1:{gateway.port}") as manual,
        pytest.raises(pd.errors.DatabaseError, match="COMMIT or ROLLBACK first"),
    ):
        FRAME.to_sql(name, manual, index=False, if_exists="delete_rows")
    assert read_ids(connection, name) == [1, 2, 3]


def test_an_index_becomes_a_column(connection: dbapi.Connection, name: str) -> None:
    FRAME.set_index("id").to_sql(name, connection, schema="main")
    read = pd.read_sql_table(name, connection, schema="main", index_col="id", columns=["share"])
    pd.testing.assert_frame_equal(read.sort_index(), FRAME.set_index("id")[["share"]])


def test_reading_parses_dates_and_keeps_arrows_types(connection: dbapi.Connection, name: str) -> None:
    FRAME.to_sql(name, connection, index=False)
    read = pd.read_sql(
        f"SELECT day, id FROM {name} ORDER BY id", connection, parse_dates={"id": "s", "day": None}
    )
    assert read["day"].tolist()[::2] == [pd.Timestamp("2026-01-01"), pd.Timestamp("2026-01-03")]
    assert read["id"].tolist()[0] == pd.Timestamp("1970-01-01 00:00:01")
    arrow = pd.read_sql(f"SELECT id FROM {name}", connection, dtype_backend="pyarrow")
    assert str(arrow["id"].dtype) == "int64[pyarrow]"


@pytest.mark.parametrize(
    "option", [{"chunksize": 2}, {"dtype": {"id": "INTEGER"}}, {"method": "multi"}, {"index_label": "key"}]
)
def test_pandas_refuses_what_it_has_for_sqlalchemy_alone(
    connection: dbapi.Connection, name: str, option: dict[str, object]
) -> None:
    with pytest.raises(NotImplementedError, match="not implemented for ADBC drivers"):
        FRAME.to_sql(name, connection, **option)  # type: ignore[call-overload]


def test_polars_writes_every_type_it_has_and_reads_with_parameters(
    connection: dbapi.Connection, name: str
) -> None:
    frame = pl.DataFrame(
        {
            "id": [1, 2],
            "category": pl.Series(["x", "y"], dtype=pl.Categorical),
            "list": [[1, 2], None],
            "struct": [{"a": 1}, {"a": 2}],
            "duration": pl.Series([3_600_000_000, None], dtype=pl.Duration("us")),
            "unsigned": pl.Series([2**64 - 1, 2], dtype=pl.UInt64),
            "vector": pl.Series([[1.0, 2.0], [3.0, 4.0]], dtype=pl.Array(pl.Float32, 2)),
            "price": pl.Series(["1.25", "2"]).cast(pl.Decimal(9, 2)),
        }
    )
    assert frame.write_database(f"main.{name}", connection, engine="adbc") == 2
    read = pl.read_database(f"SELECT * FROM {name} ORDER BY id", connection)
    assert read.equals(frame.with_columns(pl.col("category").cast(pl.String)))
    found = pl.read_database(
        f"SELECT id FROM {name} WHERE id = ?",
        connection,
        execute_options={"parameters": [2]},
        schema_overrides={"id": pl.Int32},
    )
    assert found.to_dict(as_series=False) == {"id": [2]}
    assert found.schema == {"id": pl.Int32}
