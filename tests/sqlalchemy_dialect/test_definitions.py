"""Tables and indexes that Core defines."""

import warnings
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.schema import CreateTable

from sqlalchemy_lance_gateway import HALF, STRUCT, TIMESTAMP, TINYINT, UBIGINT, VECTOR


def test_lengths_defaults_keys_and_conditions_bind(
    engine: sa.Engine, connection: sa.Connection, metadata: sa.MetaData, name: str
) -> None:
    table = sa.Table(
        name,
        metadata,
        sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("name", sa.String(5), nullable=False, server_default="none"),
        sa.Column(
            "age", sa.Integer, sa.CheckConstraint("age >= 0", name="grown"), server_default=sa.text("18")
        ),
        sa.Column("at", sa.DateTime, server_default=sa.func.now(), comment="when it's written"),
        comment="people; all of 'em",
        lancegateway_with={"region_by": "bucket(id, 2)", "key_index": False},
    )
    metadata.create_all(engine)
    connection.execute(table.insert(), {"id": 1})
    row = connection.execute(sa.select(table)).one()
    assert (row.id, row.name, row.age, row.at is None) == (1, "none", 18, False)
    for values, said in (
        ({"id": 2, "name": "toolong"}, "5"),
        ({"id": 2, "name": None}, "name"),
        ({"id": 2, "age": -1}, "grown"),
    ):
        with pytest.raises(sa.exc.DBAPIError, match=said):
            connection.execute(table.insert(), values)
    (kept,) = connection.execute(
        sa.text("SELECT region_specs, comment FROM system.tables WHERE table_name = :name"), {"name": name}
    )
    assert kept == (["1: bucket(id, 2)"], "people; all of 'em")
    (column,) = (column for column in sa.inspect(engine).get_columns(name) if column["name"] == "at")
    assert column["comment"] == "when it's written"


def test_create_all_leaves_tables_that_are_there(engine: sa.Engine, metadata: sa.MetaData, name: str) -> None:
    table = sa.Table(name, metadata, sa.Column("id", sa.Integer, primary_key=True))
    metadata.create_all(engine)
    metadata.create_all(engine)
    with pytest.raises(sa.exc.DBAPIError, match=f"{name!r} exists already"):
        table.create(engine, checkfirst=False)
    table.drop(engine)
    assert not sa.inspect(engine).has_table(name)
    table.drop(engine, checkfirst=True)


def test_a_number_does_not_count_up_by_itself(
    engine: sa.Engine, connection: sa.Connection, metadata: sa.MetaData, name: str
) -> None:
    table = sa.Table(name, metadata, sa.Column("id", sa.Integer, primary_key=True), sa.Column("v", sa.Text))
    metadata.create_all(engine)
    with pytest.raises(sa.exc.DBAPIError, match=r"'id' of table .* must not be NULL"):
        connection.execute(table.insert(), {"v": "a"})


def test_foreign_keys_and_unique_constraints_are_notes(
    engine: sa.Engine, connection: sa.Connection, metadata: sa.MetaData, name: str
) -> None:
    parent = sa.Table(f"{name}_parent", metadata, sa.Column("id", sa.Integer, primary_key=True))
    child = sa.Table(
        name,
        metadata,
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("parent", sa.ForeignKey(parent.c.id, name="of_parent")),
        sa.Column("mail", sa.String, unique=True),
    )
    with pytest.warns(sa.exc.SAWarning, match=rf"UNIQUE \(mail\) of table '{name}' is a note"):
        metadata.create_all(engine)
    connection.execute(
        child.insert(), [{"id": 1, "parent": 9, "mail": "a"}, {"id": 2, "parent": 9, "mail": "a"}]
    )
    (key,) = sa.inspect(engine).get_foreign_keys(name)
    assert (key["name"], key["referred_table"]) == ("of_parent", parent.name)


def test_tables_that_refer_to_one_another_are_made(
    engine: sa.Engine, metadata: sa.MetaData, name: str
) -> None:
    for one, other in ((name, f"{name}_b"), (f"{name}_b", name)):
        sa.Table(
            one,
            metadata,
            sa.Column("id", sa.Integer, primary_key=True),
            sa.Column("other", sa.ForeignKey(f"{other}.id", use_alter=True, name=f"{one}_other")),
        )
    metadata.create_all(engine)
    assert len(sa.inspect(engine).get_foreign_keys(name)) == 1


def test_indexes_have_types_and_options(engine: sa.Engine, metadata: sa.MetaData, name: str) -> None:
    table = sa.Table(
        name,
        metadata,
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("page", sa.String, index=True),
        sa.Column("text", sa.Text),
    )
    words = sa.Index(
        f"{name}_words", table.c.text, lancegateway_using="FTS", lancegateway_with={"stem": False}
    )
    metadata.create_all(engine)
    told = {
        index["name"]: (index["column_names"], index["dialect_options"]["lancegateway_using"])
        for index in sa.inspect(engine).get_indexes(name)
    }
    assert told == {f"ix_{name}_page": (["page"], "BTREE"), words.name: (["text"], "INVERTED")}
    words.drop(engine)
    assert [index["name"] for index in sa.inspect(engine).get_indexes(name)] == [f"ix_{name}_page"]


def test_a_unique_index_is_refused_with_the_way_out(
    engine: sa.Engine, metadata: sa.MetaData, name: str
) -> None:
    table = sa.Table(
        name, metadata, sa.Column("id", sa.Integer, primary_key=True), sa.Column("n", sa.Integer)
    )
    metadata.create_all(engine)
    with pytest.raises(sa.exc.NotSupportedError, match="a PRIMARY KEY keeps the newest row of each key"):
        sa.Index(f"{name}_n", table.c.n, unique=True).create(engine)


@pytest.mark.parametrize(
    ("type_", "written"),
    [
        (sa.String(), "VARCHAR"),
        (sa.Unicode(9), "VARCHAR(9)"),
        (sa.UnicodeText(), "TEXT"),
        (sa.NVARCHAR(9), "VARCHAR(9)"),
        (sa.CLOB(), "TEXT"),
        (sa.Enum("a", "bc", name="kind"), "VARCHAR(2)"),
        (sa.SmallInteger(), "SMALLINT"),
        (TINYINT(), "TINYINT"),
        (UBIGINT(), "BIGINT UNSIGNED"),
        (sa.Float(), "DOUBLE"),
        (sa.Float(24), "REAL"),
        (sa.Float(53), "DOUBLE"),
        (HALF(), "HALF"),
        (sa.Numeric(), "DECIMAL(38, 10)"),
        (sa.Numeric(12), "DECIMAL(12, 0)"),
        (sa.DECIMAL(12, 4), "DECIMAL(12, 4)"),
        (sa.DateTime(), "TIMESTAMP(6)"),
        (sa.DateTime(timezone=True), "TIMESTAMP(6) WITH TIME ZONE"),
        (TIMESTAMP(precision=9), "TIMESTAMP(9)"),
        (sa.TIMESTAMP(), "TIMESTAMP(6)"),
        (sa.LargeBinary(), "BYTEA"),
        (sa.LargeBinary(8), "VARBINARY(8)"),
        (sa.BINARY(8), "BINARY(8)"),
        (sa.Uuid(), "UUID"),
        (sa.JSON(), "JSON"),
        (sa.ARRAY(sa.Integer), "INTEGER[]"),
        (sa.ARRAY(sa.Integer, dimensions=2), "INTEGER[][]"),
        (VECTOR(8), "FIXED_SIZE_LIST(REAL, 8)"),
        (VECTOR(8, HALF()), "FIXED_SIZE_LIST(HALF, 8)"),
        (STRUCT(("a", sa.Integer()), ("B", sa.ARRAY(sa.Text))), 'STRUCT<a INTEGER, "B" TEXT[]>'),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_type_is_written_as_the_gateway_takes_it(
    engine: sa.Engine, metadata: sa.MetaData, name: str, type_: Any, written: str
) -> None:
    table = sa.Table(name, metadata, sa.Column("id", sa.Integer, primary_key=True), sa.Column("x", type_))
    assert f"x {written}" in str(CreateTable(table).compile(engine))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table.create(engine)
    assert [column["name"] for column in sa.inspect(engine).get_columns(name)] == ["id", "x"]


def test_temporary_tables_are_of_their_connection(engine: sa.Engine, name: str) -> None:
    table = sa.Table(
        name, sa.MetaData(), sa.Column("i", sa.Integer, primary_key=True), prefixes=["TEMPORARY"]
    )
    with engine.connect() as connection, engine.connect() as other:
        table.create(connection)
        connection.execute(table.insert(), [{"i": 1}, {"i": 2}])
        assert connection.execute(sa.select(sa.func.sum(table.c.i))).scalar_one() == 3
        with pytest.raises(sa.exc.DBAPIError, match="does not exist"):
            other.execute(sa.select(table.c.i))
