"""Schemas: tables in directories beside those of `main`."""

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import (
    AlreadyExistsError,
    InvalidInputError,
    LanceGatewayError,
    NotFoundError,
    PermissionDeniedError,
    PreconditionError,
)
from tests.support.judging.principals import ALL, Principal

Sql = Any


@pytest.fixture
def lake(sql: Sql) -> Sql:
    """The table t in `main` and in two schemas, with other rows in each."""
    sql("CREATE SCHEMA a")
    sql('CREATE SCHEMA "B.c"')
    for name, first in (("t", 0), ("a.t", 10), ('"B.c".t', 20)):
        sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT) WITH (region_by = 'bucket(id, 2)')")
        sql(f"INSERT INTO {name} VALUES (1, {first + 1}), (2, {first + 2})")
    return sql


@pytest.mark.usefixtures("lake")
def test_a_table_of_a_schema_is_a_directory_of_its_directory(root: Path) -> None:
    assert (root / "a" / "t.lance" / "_versions").is_dir()
    assert (root / "B.c" / "t.lance" / "_versions").is_dir()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT v FROM t ORDER BY id", [1, 2]),
        ("SELECT v FROM main.t ORDER BY id", [1, 2]),
        ("SELECT v FROM a.t ORDER BY id", [11, 12]),
        ("SELECT a.t.v FROM lance.a.t WHERE a.t.id = 2", [12]),
        ("SELECT v FROM A.T WHERE id = 1", [11]),
        ('SELECT v FROM "B.c".t WHERE id = 1', [21]),
        ('SELECT x.v FROM "a"."t" AS x WHERE x.id IN (1, 2) ORDER BY 1', [11, 12]),
        ("SELECT t.v + u.v FROM t JOIN a.t AS u ON t.id = u.id ORDER BY 1", [12, 14]),
        ("SELECT a.t.v FROM t JOIN a.t ON main.t.id = a.t.id ORDER BY 1", [11, 12]),
        ('SELECT "B.c".t.v - a.t.v FROM a.t, "B.c".t WHERE a.t.id = "B.c".t.id', [10, 10]),
        ("SELECT count(*) FROM a.t JOIN t USING (id)", [2]),
        ("SELECT v FROM a.t UNION ALL SELECT v FROM t ORDER BY 1", [1, 2, 11, 12]),
        # The inner name without a schema is that of the inner table.
        ("SELECT v FROM a.t WHERE EXISTS (SELECT 1 FROM main.t WHERE t.v = 1) ORDER BY 1", [11, 12]),
        (
            "SELECT v FROM a.t WHERE EXISTS (SELECT 1 FROM main.t WHERE main.t.v = a.t.v - 10) ORDER BY 1",
            [11, 12],
        ),
        ("SELECT v FROM a.t WHERE EXISTS (SELECT 1 FROM main.t WHERE main.t.v = a.t.v) ORDER BY 1", []),
        ("SELECT (SELECT max(main.t.v) FROM main.t WHERE main.t.id < a.t.id) FROM a.t ORDER BY 1", [1, None]),
        ("WITH t AS (SELECT 5 AS v) SELECT v FROM t UNION ALL SELECT v FROM main.t ORDER BY 1", [1, 2, 5]),
    ],
)
def test_names_of_two_and_three_parts(lake: Sql, query: str, expected: list[int]) -> None:
    assert [value for (value,) in lake(query)] == expected


def test_writes_go_to_the_table_of_their_schema(lake: Sql) -> None:
    assert lake("UPDATE a.t SET v = a.t.v + t.id WHERE a.t.id = 1") == 1
    assert lake("UPDATE a.t SET v = a.t.v + s.v FROM t AS s WHERE s.id = a.t.id AND s.id = 2") == 1
    assert lake("SELECT v FROM a.t ORDER BY id") == [(12,), (14,)]
    assert lake("DELETE FROM a.t WHERE id = 1 RETURNING a.t.v") == [{"v": 12}]
    assert len(lake("INSERT INTO a.t SELECT id + 5, v FROM main.t RETURNING id")) == 2
    lake(
        "MERGE INTO a.t AS into_t USING t ON into_t.id = t.id + 5 "
        "WHEN MATCHED AND t.id = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 100"
    )
    lake('INSERT INTO "B.c".t VALUES (1, 7) ON CONFLICT (id) DO UPDATE SET v = t.v + excluded.v')
    assert lake("SELECT id, v FROM a.t ORDER BY id") == [(2, 14), (7, 100)]
    assert lake('SELECT v FROM "B.c".t ORDER BY id') == [(28,), (22,)]
    assert lake("SELECT id, v FROM t ORDER BY id") == [(1, 1), (2, 2)]
    lake("TRUNCATE TABLE a.t")
    assert lake("SELECT count(*) FROM a.t, t") == [(0,)]


def test_tables_without_a_key_are_written_in_their_schema(lake: Sql) -> None:
    for name, value in (("n", 1), ("a.n", 2)):
        lake(f"CREATE TABLE {name} (v INT)")
        lake(f"INSERT INTO {name} VALUES ({value}), (5)")
    assert lake("UPDATE a.n SET v = a.n.v + 10 WHERE a.n.v = 2") == 1
    assert lake("DELETE FROM n WHERE v = 5", schema="a") == 1
    assert (lake("SELECT v FROM a.n"), sorted(lake("SELECT v FROM n"))) == ([(12,)], [(1,), (5,)])
    lake("CREATE TABLE a.p (v INT NOT NULL) WITH (memwal = false)")
    lake("ALTER TABLE a.p ADD PRIMARY KEY (v)")


def test_definitions_name_tables_of_schemas(lake: Sql, root: Path) -> None:
    lake("CREATE TABLE a.copy (LIKE a.t)")
    lake("CREATE TABLE a.made (PRIMARY KEY (id)) AS SELECT * FROM a.t")
    lake("ALTER TABLE a.made ADD CONSTRAINT few CHECK (v < 100)")
    lake("ALTER TABLE a.made ADD CHECK (id > 0)")
    with pytest.raises(InvalidInputError, match="few"):
        lake("INSERT INTO a.made VALUES (9, 200)")
    lake("CREATE INDEX v_idx ON a.made (v)")
    lake("OPTIMIZE a.made")
    (analyzed,) = lake("ANALYZE a.made")
    assert (analyzed["table_name"], analyzed["rows"]) == ("a.made", 2)
    listed = (
        "SELECT table_schema, table_name, constraint_name FROM system.constraints WHERE table_name = 'made'"
    )
    assert sorted(lake(listed)) == [
        ("a", "made", "few"),
        ("a", "made", "made_check"),
        ("a", "made", "made_pkey"),
    ]
    lake("DROP INDEX v_idx ON a.made")
    lake("DROP TABLE a.made")
    assert not (root / "a" / "made.lance").exists()
    assert lake("SELECT table_schema, table_name FROM system.tables ORDER BY 1, 2") == [
        ("B.c", "t"),
        ("a", "copy"),
        ("a", "t"),
        ("main", "t"),
    ]


def test_a_view_reads_names_without_a_schema_in_its_own(lake: Sql) -> None:
    lake(
        "CREATE VIEW a.w AS SELECT v, main.t.v AS m FROM t JOIN main.t USING (id)".replace(
            "SELECT v", "SELECT a.t.v"
        )
    )
    lake("CREATE VIEW a.x AS SELECT v FROM t")
    lake("CREATE VIEW x AS SELECT v FROM t")
    for schema in ("main", "a", "B.c"):
        assert sorted(lake("SELECT v, m FROM a.w", schema=schema)) == [(11, 1), (12, 2)]
        assert sorted(lake("SELECT v FROM a.x", schema=schema)) == [(11,), (12,)]
        assert sorted(lake("SELECT v FROM main.x", schema=schema)) == [(1,), (2,)]
    nested = "SELECT v FROM main.x WHERE v < (SELECT max(v) FROM a.x AS y WHERE y.v > x.v) ORDER BY v"
    assert lake(nested, schema="B.c") == [(1,), (2,)]
    lake("DROP VIEW a.x")
    with pytest.raises(NotFoundError, match=r"'a\.x'"):
        lake("SELECT * FROM a.x")
    assert lake("SELECT count(*) FROM x") == [(2,)]


@pytest.mark.parametrize(
    "dialect", ["postgres", "duckdb", "spark", "mysql", "snowflake", "bigquery", "trino"]
)
def test_names_without_a_schema_are_in_that_of_the_session(lake: Sql, dialect: str) -> None:
    session = {"schema": "a", "dialect": dialect}
    assert lake("SELECT v FROM t WHERE id = 1", **session) == [(11,)]
    assert lake("SELECT V FROM MAIN.T WHERE id = 1", **session) == [(1,)]
    assert lake("UPDATE t SET v = 50 WHERE id = 1", **session) == 1
    assert lake(
        "SELECT x.v FROM t AS x WHERE EXISTS (SELECT 1 FROM main.t AS y WHERE y.id < x.id)", **session
    ) == [(12,)]
    assert (lake("SELECT v FROM a.t WHERE id = 1"), lake("SELECT v FROM t WHERE id = 1")) == ([(50,)], [(1,)])


def test_definitions_are_made_in_the_schema_of_the_session(lake: Sql, root: Path) -> None:
    lake("CREATE TABLE u (id INT)", schema="a")
    lake("CREATE VIEW w AS SELECT * FROM t", schema="a")
    assert (root / "a" / "u.lance").is_dir()
    assert lake("SELECT count(*) FROM a.w") == [(2,)]
    lake("DROP TABLE u", schema="a")
    with pytest.raises(NotFoundError, match="Schema 'nope' does not exist"):
        lake("SELECT * FROM t", schema="nope")
    assert lake("SELECT table_name FROM tables WHERE table_schema = 'a'", schema="system") == [("t",)]
    assert ("w",) in lake(
        "SELECT table_name FROM tables WHERE table_schema = 'a'", schema="information_schema"
    )


def test_searches_and_past_versions(sql: Sql) -> None:
    sql("CREATE SCHEMA s")
    sql(
        "CREATE TABLE s.docs (id INT PRIMARY KEY, vec FLOAT[2], body TEXT) WITH (region_by = 'bucket(id, 2)')"
    )
    sql("INSERT INTO s.docs VALUES (1, [0, 0], 'a fox'), (2, [5, 5], 'a dog')")
    nearest = "SELECT id FROM lance_vector_search({}, 'vec', [4, 4], k => 1)"
    assert sql(nearest.format("'s.docs'")) == sql(nearest.format("'docs'"), schema="s") == [(2,)]
    assert sql(nearest.format("'lance.s.docs'")) == [(2,)]
    sql("CREATE INDEX ON s.docs USING FTS (body)")
    assert sql("SELECT d.id FROM lance_fts('s.docs', 'body', 'fox') AS d") == [(1,)]
    assert sql("SELECT id FROM s.docs ORDER BY array_distance(vec, [4.0, 4.0]) LIMIT 1") == [(2,)]
    assert sql("SELECT count(*) FROM s.docs VERSION AS OF 1") == [(0,)]
    sql('CREATE TABLE "s.docs" (id INT, vec FLOAT[2])')
    sql('INSERT INTO "s.docs" VALUES (9, [4, 4])')
    assert sql(nearest.format("'s.docs'")) == [(2,)]
    assert sql(nearest.format("'\"s.docs\"'")) == [(9,)]
    sql("DROP TABLE s.docs")
    assert sql(nearest.format("'s.docs'")) == [(9,)]
    with pytest.raises(NotFoundError, match=r"Schema 'r' does not exist"):
        sql(nearest.format("'r.docs'"))


def test_a_table_whose_name_has_a_dot_is_not_one_of_a_schema(sql: Sql, root: Path) -> None:
    sql("CREATE SCHEMA s")
    sql('CREATE TABLE "s.t" (id INT)')
    sql("CREATE TABLE s.t (id INT, v INT)")
    sql('INSERT INTO "s.t" VALUES (1)')
    assert sql('SELECT * FROM "s.t"') == [(1,)]
    assert sql("SELECT * FROM s.t") == []
    assert (root / "s.t.lance").is_dir()
    assert sorted(sql("SELECT table_schema, table_name FROM system.tables")) == [("main", "s.t"), ("s", "t")]
    sql('DROP TABLE "s.t"')
    assert sql("SELECT * FROM s.t") == []


def test_information_schema_lists_schemas(lake: Sql) -> None:
    lake("CREATE SCHEMA empty")
    schemata = "SELECT schema_name FROM information_schema.schemata WHERE catalog_name = 'lance' ORDER BY 1"
    names = ["B.c", "a", "empty", "information_schema", "main", "system"]
    assert [name for (name,) in lake(schemata)] == names
    assert [
        name for (name,) in lake("SELECT nspname FROM pg_namespace ORDER BY 1") if name != "pg_catalog"
    ] == names
    columns = "SELECT table_schema, column_name FROM information_schema.columns WHERE table_name = 't'"
    assert sorted(lake(columns)) == [
        (schema, name) for schema in ("B.c", "a", "main") for name in ("id", "v")
    ]
    keys = "SELECT constraint_schema, table_schema, column_name FROM information_schema.key_column_usage"
    assert sorted(lake(keys)) == [(schema, schema, "id") for schema in ("B.c", "a", "main")]


def test_tables_and_views_are_renamed_in_their_schema_or_into_another(lake: Sql) -> None:
    lake("COMMENT ON TABLE a.t IS 'of a'")
    lake("COMMENT ON COLUMN a.t.v IS 'a value'")
    lake("CREATE VIEW a.w AS SELECT v FROM t")
    lake("ALTER TABLE a.t RENAME TO u")
    assert lake("SELECT v FROM a.u ORDER BY id") == [(11,), (12,)]
    lake("ALTER TABLE a.u RENAME TO main.u")
    lake("ALTER VIEW a.w RENAME TO x", schema="main")
    assert lake("SELECT v FROM u ORDER BY id") == [(11,), (12,)]
    assert lake("SELECT comment FROM system.tables WHERE table_schema = 'main' AND table_name = 'u'") == [
        ("of a",)
    ]
    lake("CREATE OR REPLACE TABLE a.t AS SELECT 1 AS v")
    assert lake("SELECT v FROM a.x") == [(1,)]


def test_changes_between_states_are_of_the_table_of_the_schema(lake: Sql) -> None:
    sql = "SELECT count(*) FROM lance_changes({}, since => 1, until => 1)"
    assert lake(sql.format("'a.t'")) == lake(sql.format("'t'"), schema="a") == [(0,)]


def test_oids_are_of_names_in_the_schema_of_the_session(lake: Sql) -> None:
    named = "SELECT 't'::regclass::oid = 'main.t'::regclass::oid, 't'::regclass::oid = 'a.t'::regclass::oid"
    assert lake(named) == [(True, False)]
    assert lake(named, schema="a") == [(False, True)]


@pytest.mark.parametrize(
    ("statement", "schema", "tables"),
    [
        ("SHOW COLUMNS FROM t", "main", {("main", "t")}),
        ("SHOW COLUMNS FROM t", "a", {("a", "t")}),
        ("SHOW COLUMNS FROM a.t", "main", {("a", "t")}),
        ('SHOW COLUMNS IN "B.c".t', "a", {("B.c", "t")}),
    ],
)
def test_columns_are_shown_of_one_table(
    lake: Sql, statement: str, schema: str, tables: set[tuple[str, str]]
) -> None:
    assert {row[1:3] for row in lake(statement, schema=schema)} == tables
    assert lake(f"DESCRIBE {statement.rsplit(maxsplit=1)[-1]}", schema=schema) == lake("DESCRIBE t")


def test_directories_of_others_are_no_schemas(sql: Sql, root: Path) -> None:
    for name in ("checkpoints", ".hidden", "_private", "notes.lance", "main", "system", "found"):
        (root / name).mkdir()
    (root / "checkpoints" / "state").mkdir()
    (root / "file").write_text("")
    for name in (".hidden", "_private", "main", "system", "found"):
        lance.write_dataset(pa.table({"x": [1]}), root / name / "t.lance")
    names = "SELECT schema_name FROM information_schema.schemata WHERE catalog_name = 'lance' ORDER BY 1"
    assert [name for (name,) in sql(names)] == ["found", "information_schema", "main", "system"]
    assert sql("SELECT x FROM found.t") == [(1,)]
    for name in ("checkpoints", '".hidden"', '"_private"', "file", '"notes.lance"', '".."', '"a/b"', '""'):
        with pytest.raises(LanceGatewayError, match=r"does not exist|is expected|name"):
            sql(f"SELECT * FROM {name}.t")
    with pytest.raises(NotFoundError):
        sql("SELECT * FROM main.t")


def test_a_schema_is_made_once_and_dropped_when_it_is_empty(sql: Sql, root: Path) -> None:
    sql("CREATE SCHEMA s")
    with pytest.raises(AlreadyExistsError, match="schema 's' exists already: use IF NOT EXISTS"):
        sql("CREATE SCHEMA lance.s")
    sql("CREATE SCHEMA IF NOT EXISTS s")
    sql("CREATE TABLE s.t (id INT)")
    sql("INSERT INTO s.t VALUES (1)")
    sql("CREATE VIEW s.v AS SELECT * FROM t")
    for end in ("", " RESTRICT"):
        with pytest.raises(PreconditionError, match=r"\(s\.t, s\.v\): add CASCADE"):
            sql(f"DROP SCHEMA s{end}")
    sql("DROP SCHEMA s CASCADE")
    assert list(root.iterdir()) == []
    sql("DROP SCHEMA IF EXISTS s")
    with pytest.raises(NotFoundError, match="Schema 's' does not exist"):
        sql("DROP SCHEMA s")
    with pytest.raises(NotFoundError, match="Schema 's' does not exist"):
        sql("CREATE TABLE s.t (id INT)")
    sql("CREATE SCHEMA s")
    sql("CREATE TABLE s.t (id INT)")
    assert sql("SELECT * FROM s.t") == []


@pytest.mark.parametrize(
    "name", ["main", "system", "information_schema", "pg_catalog", '".s"', "_s", '"a/b"', '"x.lance"', '""']
)
def test_names_that_no_schema_can_have(sql: Sql, root: Path, name: str) -> None:
    with pytest.raises(InvalidInputError):
        sql(f"CREATE SCHEMA {name}")
    with pytest.raises((InvalidInputError, NotFoundError)):
        sql(f"DROP SCHEMA {name} CASCADE")
    assert list(root.iterdir()) == []


def test_files_of_others_outlive_a_schema(sql: Sql, root: Path) -> None:
    sql("CREATE SCHEMA s")
    (root / "s" / "notes.txt").write_text("kept")
    sql("DROP SCHEMA s CASCADE")
    assert [path.name for path in (root / "s").iterdir()] == ["notes.txt"]
    assert sql("SELECT count(*) FROM information_schema.schemata WHERE schema_name = 's'") == [(0,)]


def test_who_may_not_write_a_schema_makes_and_drops_none(lake: Sql, root: Path) -> None:
    owner = Principal({"t": ALL, "a.t": ALL}, writes=frozenset({"t", "a.t"}))
    for statement in ("CREATE SCHEMA z", "DROP SCHEMA a CASCADE", "CREATE TABLE a.u (id INT)"):
        with pytest.raises(PermissionDeniedError):
            lake(statement, owner)
    with pytest.raises(NotFoundError, match=r"Schema 'B\.c' does not exist"):
        lake('DROP SCHEMA "B.c" CASCADE', owner)
    assert lake("SELECT table_schema FROM system.tables ORDER BY 1", owner) == [("a",), ("main",)]
    assert not (root / "z").exists()
