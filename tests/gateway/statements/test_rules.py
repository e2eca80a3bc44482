"""Lengths, checks and defaults over the wire: every way to write, and what clients are told."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as flightsql
import pyarrow as pa
import pytest
from pyarrow import flight

from lance_gateway.protos import flight_sql_pb2 as sql
from tests.gateway import rpc
from tests.gateway.peers.peer_gateways import Peer, peer
from tests.support.processes.gateways import EngineGateway

TABLE = """
CREATE TABLE notes (
  id BIGINT PRIMARY KEY, text VARCHAR(4) DEFAULT 'none', code VARBINARY(2), stars INT CHECK (stars <= 5)
)"""
BAD = [
    ({"id": [1, 2], "text": ["a", "abcde"]}, "id = 2 has 5 there"),
    ({"id": [1, 2], "stars": [5, 6]}, "id = 2"),
]

MERGE = (
    "MERGE INTO notes USING (VALUES {}) AS n(id, stars) ON notes.id = n.id {} "
    "WHEN NOT MATCHED THEN INSERT (id, stars) VALUES (n.id, n.stars)"
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = EngineGateway(tmp_path)
    made.write(TABLE)
    made.close()
    return tmp_path


@pytest.fixture
def gateways(root: Path) -> Iterator[tuple[Peer, Peer]]:
    """Two gateways that forward rows, of which the first owns the region."""
    with peer(root) as owner, peer(root) as other:
        owner.write("INSERT INTO notes (id) VALUES (0)")
        yield owner, other


@pytest.fixture(params=[0, 1], ids=["owner", "forwarded"])
def cursor(request: pytest.FixtureRequest, gateways: tuple[Peer, Peer]) -> Iterator[Any]:
    """An ADBC cursor on the owner of the region, or on a gateway that forwards rows to it."""
    with (
        flightsql.connect(gateways[request.param].url, autocommit=True) as connection,
        connection.cursor() as one,
    ):
        yield one


def rows(cursor: Any) -> list[tuple[Any, ...]]:
    cursor.execute("SELECT * FROM notes WHERE id > 0 ORDER BY id")
    found: list[tuple[Any, ...]] = cursor.fetchall()
    return found


@pytest.mark.parametrize(("given", "said"), BAD)
def test_bulk_ingestion(cursor: Any, given: dict[str, list[Any]], said: str) -> None:
    with pytest.raises(flightsql.ProgrammingError, match=said):
        cursor.adbc_ingest("notes", pa.table(given), mode="append")
    assert rows(cursor) == []
    cursor.adbc_ingest("notes", pa.table({"id": [1, 2], "stars": [5, None]}), mode="append")
    assert rows(cursor) == [(1, "none", None, 5), (2, "none", None, None)]


@pytest.mark.parametrize(("given", "said"), BAD)
def test_prepared_statements(cursor: Any, given: dict[str, list[Any]], said: str) -> None:
    names = list(given)
    insert = f"INSERT INTO notes ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
    with pytest.raises(flightsql.ProgrammingError, match=said):
        cursor.executemany(insert, list(zip(*given.values(), strict=True)))
    assert rows(cursor) == []


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO notes SELECT value, repeat('x', value), NULL, 1 FROM generate_series(1, 5) AS s(value)",
        "INSERT INTO notes (id, stars) VALUES (0, 6) ON CONFLICT (id) DO UPDATE SET stars = excluded.stars",
        "INSERT INTO notes (id, stars) VALUES (1, 1), (2, 6) ON CONFLICT DO NOTHING",
        "UPDATE notes SET stars = 6",
        "UPDATE notes SET text = 'abcde' WHERE id = 0",
        "UPDATE notes SET code = X'000000'",
        MERGE.format("(0, 6), (1, 1)", "WHEN MATCHED THEN UPDATE SET stars = n.stars"),
        MERGE.format("(1, 6), (2, 1)", ""),
    ],
)
def test_statements_that_violate_a_rule_change_nothing(cursor: Any, statement: str) -> None:
    with pytest.raises(flightsql.ProgrammingError, match="table 'notes': "):
        cursor.execute(statement)
    cursor.execute("SELECT * FROM notes")
    assert cursor.fetchall() == [(0, "none", None, None)]


def test_defaults_in_every_statement(cursor: Any) -> None:
    cursor.execute("INSERT INTO notes (id, text) VALUES (1, DEFAULT), (2, 'x'), (3, NULL)")
    cursor.executemany("INSERT INTO notes (id, text, stars) VALUES (?, DEFAULT, ?)", [(4, 1), (5, 2)])
    cursor.execute(
        "MERGE INTO notes USING (VALUES (2), (6)) AS n(id) ON notes.id = n.id "
        "WHEN MATCHED THEN UPDATE SET text = DEFAULT, stars = 3 "
        "WHEN NOT MATCHED THEN INSERT (id) VALUES (n.id)"
    )
    cursor.execute("INSERT INTO notes (id, stars) SELECT 7, 4")
    cursor.execute("UPDATE notes SET text = DEFAULT WHERE id = 3")
    expected = {1: None, 2: 3, 3: None, 4: 1, 5: 2, 6: None, 7: 4}
    assert rows(cursor) == [(key, "none", None, stars) for key, stars in expected.items()]


def test_a_default_is_evaluated_once_for_a_statement_or_a_row(cursor: Any) -> None:
    cursor.execute(
        "CREATE TABLE marks (id UUID DEFAULT uuid() PRIMARY KEY, at TIMESTAMP DEFAULT now(), n BIGINT) "
        "WITH (region_by = 'bucket(id, 2)')"
    )
    told: list[tuple[Any, ...]] = []
    for statement in (
        "INSERT INTO marks (n) VALUES (1), (1), (1)",
        "INSERT INTO marks (n) SELECT 2 FROM generate_series(1, 9) AS s(value)",
        "INSERT INTO marks (n) VALUES (3) ON CONFLICT (id) DO UPDATE SET n = 0",
        "INSERT INTO marks (id, n) VALUES (DEFAULT, 4), (DEFAULT, 4)",
        "MERGE INTO marks USING (VALUES (5), (5)) s(m) ON n = m WHEN NOT MATCHED THEN INSERT (n) VALUES (m)",
    ):
        cursor.execute(f"{statement} RETURNING id, at, n")
        told += cursor.fetchall()
    cursor.executemany("INSERT INTO marks (n) VALUES (?)", [(6,)] * 4)
    cursor.execute("UPDATE marks SET at = DEFAULT WHERE n = 6")
    cursor.execute("SELECT id, at, n FROM marks WHERE n < 6")
    assert sorted(cursor.fetchall()) == sorted(told)
    cursor.execute(
        "SELECT n, count(*), count(DISTINCT id), count(DISTINCT at) FROM marks GROUP BY n ORDER BY n"
    )
    assert cursor.fetchall() == [
        (1, 3, 3, 1),
        (2, 9, 9, 1),
        (3, 1, 1, 1),
        (4, 2, 2, 1),
        (5, 2, 2, 1),
        (6, 4, 4, 1),
    ]


def test_drivers_are_told_lengths(gateways: tuple[Peer, Peer]) -> None:
    with flight.connect(gateways[0].url) as client:
        command = sql.CommandGetTables(include_schema=True, table_name_filter_pattern="notes")
        (message,) = rpc.fetch(client, command).column("table_schema").to_pylist()
    precisions = {
        field.name: field.metadata.get(b"ARROW:FLIGHT:SQL:PRECISION") for field in rpc.schema_of(message)
    }
    assert precisions == {"id": b"19", "text": b"4", "code": b"2", "stars": b"10"}


def test_information_schema_tells_them_too(cursor: Any) -> None:
    cursor.execute(
        "SELECT column_name, column_default, character_maximum_length FROM information_schema.columns "
        "WHERE table_name = 'notes' ORDER BY ordinal_position"
    )
    assert cursor.fetchall() == [
        ("id", None, None),
        ("text", "'none'", 4),
        ("code", None, None),
        ("stars", None, None),
    ]
    cursor.execute("SELECT constraint_name, check_clause FROM information_schema.check_constraints")
    assert cursor.fetchall() == [("notes_stars_check", "stars <= 5")]


def test_a_gateway_that_knows_no_rule_yet_is_refused_by_the_owner(gateways: tuple[Peer, Peer]) -> None:
    owner, other = gateways
    other.write("INSERT INTO notes (id, stars) VALUES (1, 1)")
    owner.write("ALTER TABLE notes ADD CONSTRAINT few CHECK (stars < 3)")
    for one in gateways:
        with pytest.raises(Exception, match="violates constraint 'few'"):
            one.write("INSERT INTO notes (id, stars) VALUES (2, 4)")
        one.write("INSERT INTO notes (id, stars) VALUES (1, 2)")


def test_foreign_keys_that_are_noted_are_listed(gateways: tuple[Peer, Peer]) -> None:
    owner = gateways[0]
    owner.write(
        "CREATE TABLE parts (note BIGINT REFERENCES notes NOT ENFORCED, n INT, m INT, "
        "CONSTRAINT two FOREIGN KEY (n, m) REFERENCES pairs (b, a) NOT ENFORCED)"
    )
    owner.write("CREATE TABLE pairs (a INT, b INT, PRIMARY KEY (a, b))")
    with flight.connect(owner.url) as client:

        def keys(command: Any) -> list[tuple[Any, ...]]:
            listed = rpc.fetch(client, command).to_pylist()
            names = ("pk_table_name", "pk_column_name", "fk_table_name", "fk_column_name", "key_sequence")
            return [(*(row[name] for name in names), row["fk_key_name"]) for row in listed]

        note = ("notes", "id", "parts", "note", 1, "parts_note_fkey")
        two = [("pairs", "b", "parts", "n", 1, "two"), ("pairs", "a", "parts", "m", 2, "two")]
        assert keys(sql.CommandGetImportedKeys(table="parts")) == [note, *two]
        assert keys(sql.CommandGetImportedKeys(table="notes")) == []
        assert keys(sql.CommandGetExportedKeys(table="notes")) == [note]
        assert keys(sql.CommandGetCrossReference(pk_table="pairs", fk_table="parts")) == two
        assert keys(sql.CommandGetCrossReference(pk_table="parts", fk_table="pairs")) == []
        assert keys(sql.CommandGetExportedKeys(table="notes", db_schema="other")) == []
        (row, *_) = rpc.fetch(client, sql.CommandGetExportedKeys(table="notes")).to_pylist()
        assert (row["update_rule"], row["delete_rule"]) == (3, 3)
