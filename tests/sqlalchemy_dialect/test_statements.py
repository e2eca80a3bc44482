"""Statements of Core: what they change, and what they find."""

import datetime as dt
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from lance_gateway.gateway.server import GatewayServer
from sqlalchemy_lance_gateway import STRUCT, VECTOR
from tests.sqlalchemy_dialect.conftest import sent

VALUES: dict[str, tuple[Any, Any]] = {
    "flag": (sa.Boolean(), True),
    "number": (sa.BigInteger(), -(2**60)),
    "share": (sa.Float(), 0.1),
    "price": (sa.Numeric(12, 2), Decimal("12.34")),
    "text": (sa.Text(), "grün; 'quoted' ? :x %s"),
    "kind": (sa.Enum("a", "b", name="kind"), "b"),
    "raw": (sa.LargeBinary(), b"\x00\xff"),
    "token": (sa.Uuid(), uuid.UUID(int=7)),
    "token_text": (sa.Uuid(as_uuid=False), str(uuid.UUID(int=8))),
    "day": (sa.Date(), dt.date(2026, 2, 28)),
    "clock": (sa.Time(), dt.time(1, 2, 3, 4)),
    "moment": (sa.DateTime(), dt.datetime(2026, 2, 28, 23, 59, 59, 123456)),
    "instant": (sa.DateTime(timezone=True), dt.datetime(2026, 2, 28, 23, 59, tzinfo=dt.UTC)),
    "span": (sa.Interval(), dt.timedelta(days=2, microseconds=3)),
    "document": (sa.JSON(), {"a": [1, None, "x"]}),
    "tags": (sa.ARRAY(sa.Text), ["x", "y"]),
    "embedding": (VECTOR(2), [0.5, -1.0]),
    "place": (STRUCT(("a", sa.Integer()), ("b", sa.Text())), {"a": 1, "b": "c"}),
}


@pytest.fixture
def people(engine: sa.Engine, metadata: sa.MetaData, name: str) -> sa.Table:
    """Five people, 1 to 5, in cities `a` and `b`."""
    table = sa.Table(
        name,
        metadata,
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("name", sa.String(20)),
        sa.Column("city", sa.String),
        sa.Column("visits", sa.Integer, server_default="0"),
        lancegateway_with={"region_by": "bucket(id, 2)"},
    )
    metadata.create_all(engine)
    rows = [{"id": n, "name": f"person {n}", "city": "ab"[n % 2] if n < 5 else None} for n in range(1, 6)]
    with engine.connect() as connection:
        assert connection.execute(table.insert(), rows).rowcount == 5
    return table


def ids(connection: sa.Connection, table: sa.Table, *conditions: Any) -> list[int]:
    return list(connection.scalars(sa.select(table.c.id).where(*conditions).order_by(table.c.id)))


@pytest.mark.parametrize("column", VALUES)
def test_a_value_of_every_type_comes_back(
    engine: sa.Engine, connection: sa.Connection, metadata: sa.MetaData, name: str, column: str
) -> None:
    type_, value = VALUES[column]
    table = sa.Table(
        name,
        metadata,
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("x", type_),
    )
    table.create(engine)
    connection.execute(table.insert(), {"id": 1, "x": value})
    connection.execute(table.insert(), [{"id": 2, "x": value}, {"id": 3, "x": None}])
    found = connection.scalars(sa.select(table.c.x).order_by(table.c.id)).all()
    assert found == [value, value, None]


def test_writes_tell_how_many_rows_they_changed(connection: sa.Connection, people: sa.Table) -> None:
    changed = [
        connection.execute(statement)
        for statement in (
            people.insert().values(id=6, name="new"),
            people.insert().values([{"id": 7}, {"id": 8}]),
            people.update().where(people.c.id > 4).values(visits=people.c.visits + 1),
            people.delete().where(people.c.id.in_([7, 8, 99])),
            people.delete().where(people.c.id.in_([])),
        )
    ]
    assert [result.rowcount for result in changed] == [1, 2, 4, 2, 0]
    assert not any(result.returns_rows for result in changed)


def test_many_rows_are_written_in_one_call(
    connection: sa.Connection, people: sa.Table, gateway: GatewayServer
) -> None:
    rows = [{"id": n, "name": "x" * (n % 20), "city": None} for n in range(100, 3100)]
    before = len(sent(gateway, f"INSERT INTO {people.name} "))
    assert connection.execute(people.insert(), rows).rowcount == 3000
    assert len(sent(gateway, f"INSERT INTO {people.name} ")) == before + 1
    assert connection.scalar(sa.select(sa.func.count()).select_from(people)) == 3005


def test_rows_beyond_the_message_limit_of_the_driver_are_sent_in_parts(
    connection: sa.Connection, people: sa.Table
) -> None:
    rows = [{"id": n, "city": "x" * 100_000} for n in range(100, 300)]
    assert connection.execute(people.insert(), rows).rowcount == 200
    assert ids(connection, people, sa.func.length(people.c.city) == 100_000) == list(range(100, 300))


def test_updates_and_deletes_with_many_parameters(connection: sa.Connection, people: sa.Table) -> None:
    update = people.update().where(people.c.id == sa.bindparam("key")).values(city=sa.bindparam("to"))
    rows = [{"key": 1, "to": "x"}, {"key": 2, "to": None}, {"key": 99, "to": "y"}]
    assert connection.execute(update, rows).rowcount == 2
    delete = people.delete().where(people.c.id == sa.bindparam("key"))
    assert connection.execute(delete, [{"key": 1}, {"key": 3}]).rowcount == 2
    assert ids(connection, people) == [2, 4, 5]


def test_returning_has_rows_and_their_number(connection: sa.Connection, people: sa.Table) -> None:
    inserted = connection.execute(
        people.insert().returning(people.c.id, people.c.visits), [{"id": 8}, {"id": 9}]
    )
    assert sorted(inserted.all()) == [(8, 0), (9, 0)]
    updated = connection.execute(
        people.update().where(people.c.id > 7).values(visits=3).returning(people.c.visits)
    )
    assert (updated.rowcount, updated.all()) == (2, [(3,), (3,)])
    deleted = connection.execute(people.delete().where(people.c.id == 9).returning(people.c.visits))
    assert deleted.all() == [(3,)]


def test_a_row_with_a_key_that_is_there_replaces_it(connection: sa.Connection, people: sa.Table) -> None:
    connection.execute(people.insert().values(id=1, name="again"))
    assert connection.execute(sa.select(people).where(people.c.id == 1)).all() == [(1, "again", None, 0)]


def test_writes_read_other_tables(
    engine: sa.Engine, connection: sa.Connection, people: sa.Table, metadata: sa.MetaData
) -> None:
    cities = sa.Table(
        f"{people.name}_cities",
        metadata,
        sa.Column("code", sa.String, primary_key=True),
        sa.Column("name", sa.String),
    )
    cities.create(engine)
    connection.execute(cities.insert(), [{"code": "a", "name": "Aachen"}, {"code": "b", "name": "Bonn"}])
    named = people.update().where(people.c.city == cities.c.code).values(name=cities.c.name)
    assert connection.execute(named).rowcount == 4
    gone = people.delete().where(people.c.city == cities.c.code, cities.c.name == "Bonn")
    assert connection.execute(gone).rowcount == 2
    copied = people.insert().from_select(["id", "name"], sa.select(people.c.id + 10, people.c.name))
    assert connection.execute(copied).rowcount == 3
    assert ids(connection, people, people.c.name == "Aachen") == [2, 4, 12, 14]


def test_conditions_find_what_they_say(connection: sa.Connection, people: sa.Table) -> None:
    c = people.c
    for condition, found in (
        (c.id.between(2, 3), [2, 3]),
        (c.city.is_(None), [5]),
        (c.city.in_([]), []),
        (c.city.not_in([]), [1, 2, 3, 4, 5]),
        (c.id.in_([1, 5]), [1, 5]),
        (sa.and_(c.city.is_distinct_from("a"), c.id < 5), [1, 3]),
        (sa.and_(c.city.is_not_distinct_from(None), c.id > 1), [5]),
        (c.name.regexp_match("[23]$"), [2, 3]),
        (~c.name.regexp_match("[23]$"), [1, 4, 5]),
        (c.name.regexp_match("PERSON 1", flags="i"), [1]),
        (c.name.regexp_replace("person ", "") == "4", [4]),
        (c.name.ilike("PERSON 1"), [1]),
        (c.name.startswith("person"), [1, 2, 3, 4, 5]),
        (sa.tuple_(c.id, c.city).in_([(1, "b"), (2, "b")]), [1]),
    ):
        assert ids(connection, people, condition) == found, str(condition)


def test_limits_and_offsets(connection: sa.Connection, people: sa.Table) -> None:
    ordered = sa.select(people.c.id).order_by(people.c.id)
    for statement, found in (
        (ordered.limit(2), [1, 2]),
        (ordered.limit(2).offset(3), [4, 5]),
        (ordered.offset(3), [4, 5]),
        (ordered.limit(0), []),
        (ordered.fetch(2), [1, 2]),
        (ordered.fetch(2).offset(1), [2, 3]),
        (ordered.slice(1, 3), [2, 3]),
    ):
        assert connection.scalars(statement).all() == found


def test_lateral_joins_and_windows(connection: sa.Connection, people: sa.Table) -> None:
    other = people.alias()
    newest = (
        sa.select(other.c.id)
        .where(other.c.city == people.c.city)
        .order_by(other.c.id.desc())
        .limit(1)
        .lateral("newest")
    )
    statement = (
        sa.select(people.c.id, newest.c.id).join(newest, sa.true(), isouter=True).order_by(people.c.id)
    )
    assert connection.execute(statement).all() == [(1, 3), (2, 4), (3, 3), (4, 4), (5, None)]
    ranked = sa.select(
        people.c.id, sa.func.row_number().over(partition_by=people.c.city, order_by=people.c.id)
    ).order_by(people.c.id)
    assert connection.execute(ranked).all() == [(1, 1), (2, 1), (3, 2), (4, 2), (5, 1)]


def test_the_nearest_vectors_are_searched(
    engine: sa.Engine, connection: sa.Connection, metadata: sa.MetaData, name: str
) -> None:
    table = sa.Table(
        name, metadata, sa.Column("id", sa.Integer, primary_key=True), sa.Column("embedding", VECTOR(2))
    )
    table.create(engine)
    rows = [{"id": n, "embedding": np.array([n, 1], np.float32)} for n in range(1, 6)]
    connection.execute(table.insert(), rows)
    embedding = table.c.embedding
    for distance, found in (
        (embedding.l2_distance([3.2, 1]), [3, 4]),
        (embedding.cosine_distance([1, 1]), [1, 2]),
        (embedding.max_inner_product(np.array([1.0, 0.0])), [5, 4]),
    ):
        nearest = sa.select(table.c.id).order_by(distance).limit(2)
        assert connection.scalars(nearest).all() == found


def test_nothing_is_sent_for_transactions(
    connection: sa.Connection, people: sa.Table, gateway: GatewayServer
) -> None:
    with connection.begin() as transaction:
        connection.execute(people.insert().values(id=6))
        transaction.rollback()
    assert not [word for word in ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT") if word in sent(gateway, word)]
    # There is nothing that takes a statement back.
    assert 6 in ids(connection, people)
    with pytest.raises(sa.exc.InvalidRequestError, match="the gateway has no savepoints"):
        connection.begin_nested()
    assert connection.get_isolation_level() == "AUTOCOMMIT"
    with pytest.raises(sa.exc.ArgumentError, match="AUTOCOMMIT, REPEATABLE READ"):
        connection.engine.execution_options(isolation_level="SERIALIZABLE").connect()


def test_transactions_are_chosen_by_their_level(connection: sa.Connection, people: sa.Table) -> None:
    with connection.engine.execution_options(isolation_level="REPEATABLE READ").connect() as other:
        assert other.get_isolation_level() == "REPEATABLE READ"
        before = ids(other, people)
        other.execute(people.insert(), [{"id": 60}, {"id": 61}])
        assert ids(other, people) == [*before, 60, 61]
        assert ids(connection, people) == before
        other.rollback()
        assert ids(other, people) == before
        other.execute(people.insert().values(id=62))
        other.commit()
        assert ids(connection, people) == [*before, 62]
    # It is back in the pool, for those who choose nothing.
    with connection.engine.connect() as another:
        assert another.get_isolation_level() == "AUTOCOMMIT"


def test_a_commit_that_comes_too_late_fails_and_its_connection_goes_on(
    connection: sa.Connection, people: sa.Table
) -> None:
    change = people.update().where(people.c.id == 1)
    with connection.engine.execution_options(isolation_level="REPEATABLE READ").connect() as other:
        other.execute(change.values(name="mine"))
        connection.execute(change.values(name="theirs"))
        with pytest.raises(sa.exc.OperationalError, match="begin it again") as caught:
            other.commit()
        assert not caught.value.connection_invalidated
        other.rollback()
        other.execute(change.values(name="mine"))
        other.commit()
    assert connection.scalar(sa.select(people.c.name).where(people.c.id == 1)) == "mine"


def test_errors_are_those_of_sqlalchemy(connection: sa.Connection, people: sa.Table) -> None:
    with pytest.raises(sa.exc.ProgrammingError, match="'nowhere' does not exist"):
        connection.execute(sa.text("SELECT * FROM nowhere"))
    with pytest.raises(sa.exc.DataError, match="parameter 2 can't be sent"):
        connection.execute(sa.text("SELECT :a, :b"), {"a": 1, "b": object()})
    with pytest.raises(sa.exc.DataError, match="parameter 1 can't be sent"):
        connection.execute(people.insert(), [{"id": 1}, {"id": "two"}])
    with pytest.raises(sa.exc.NotSupportedError, match="FOR UPDATE"):
        connection.execute(sa.select(people).with_for_update())


def test_rows_are_read_while_they_arrive(connection: sa.Connection) -> None:
    ends = [sa.literal(end, literal_execute=True) for end in (1, 100_000_000)]
    series = sa.func.generate_series(*ends).table_valued("value")
    numbers = connection.execution_options(yield_per=1000).execute(sa.select(series.c.value))
    first = next(iter(numbers.partitions()))
    assert [row.value for row in first] == list(range(1, 1001))
    numbers.close()


@pytest.fixture
def odd(engine: sa.Engine, metadata: sa.MetaData, name: str) -> Iterator[sa.Table]:
    table = sa.Table(
        f"Odd {name}",
        metadata,
        sa.Column("Key", sa.Integer, primary_key=True),
        sa.Column("select", sa.Integer),
        sa.Column('a "b"', sa.Integer),
        sa.Column("per%cent", sa.Integer),
    )
    table.create(engine)
    return table


def test_names_of_every_kind_are_quoted(connection: sa.Connection, odd: sa.Table) -> None:
    row = {"Key": 1, "select": 2, 'a "b"': 3, "per%cent": 4}
    connection.execute(odd.insert(), row)
    connection.execute(odd.update().where(odd.c["select"] == 2).values({"per%cent": 5}))
    (found,) = connection.execute(sa.select(odd)).mappings()
    assert dict(found) == row | {"per%cent": 5}
