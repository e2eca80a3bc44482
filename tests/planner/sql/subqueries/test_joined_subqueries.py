"""What a statement with joined subqueries keeps: names, parameters, plans, views, rights and errors."""

import re
from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import (
    InvalidInputError,
    LanceGatewayError,
    PreconditionError,
    UnsupportedError,
)
from lance_gateway.planner.access.rights import FULL_ACCESS
from lance_gateway.planner.engine import QueryEngine, SessionSettings
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.support.judging.results import rows_of

T = pa.table({"id": pa.array(range(5), pa.int64()), "v": pa.array([10, 20, None, 40, 20], pa.int64())})
U = pa.table({"k": pa.array(range(4), pa.int64()), "b": pa.array([5, 15, 25, None], pa.int64())})
OF_ROW = "FROM u WHERE u.b < t.v ORDER BY u.k LIMIT 1"
COUNT = "(SELECT count(*) FROM u WHERE u.b < t.v)"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    lance.write_dataset(T, tmp_path / "t.lance")
    lance.write_dataset(U, tmp_path / "u.lance")
    return tmp_path


@pytest.fixture
def engine(root: Path) -> Iterator[QueryEngine]:
    engine = QueryEngine(Catalog.open(str(root)), partitions=2)
    yield engine
    engine.close()


def ask(engine: QueryEngine, sql: str, *parameters: object) -> list[tuple[object, ...]]:
    values = [pa.scalar(one) for one in parameters]
    return rows_of(engine.prepare(sql).execute(values).read_all())


def change(engine: QueryEngine, sql: str) -> None:
    engine.prepare_statement(sql, SessionSettings(), FULL_ACCESS).execute()


def explain(engine: QueryEngine, sql: str) -> str:
    return "\n".join(engine.execute(f"EXPLAIN {sql}").read_all()["plan"].to_pylist())


@pytest.mark.parametrize(
    ("items", "names"),
    [
        (COUNT, ["count(*)"]),
        ("(SELECT sum(u.b) FROM u WHERE u.b < t.v), id + 1 AS i", ["sum(u.b)", "i"]),
        (f"{COUNT} AS n, id, t.v", ["n", "id", "v"]),
        (f"*, {COUNT} AS n", ["id", "v", "n"]),
        ("EXISTS (SELECT 1 FROM u WHERE u.b < t.v)", ["EXISTS"]),
        (f"{COUNT} AS c, t.id AS id2, t.*", ["c", "id2", "id", "v"]),
    ],
)
def test_results_keep_their_names(engine: QueryEngine, items: str, names: list[str]) -> None:
    query = engine.prepare(f"SELECT {items} FROM t")
    assert query.schema.names == names
    assert query.execute().read_all().num_rows == len(T)


def test_results_may_share_a_name(engine: QueryEngine) -> None:
    query = engine.prepare(f"SELECT {COUNT} AS n, id AS n, {COUNT}, {COUNT} FROM t")
    assert query.schema.names == ["n", "n", "count(*)", "count(*)"]
    rows = [
        tuple(one.as_py() for one in row) for row in zip(*query.execute().read_all().columns, strict=True)
    ]
    assert len(rows) == len(T)
    assert all(row[0] == row[2] == row[3] for row in rows)


@pytest.mark.parametrize("clause", ["GROUP BY 0", "GROUP BY 1, 3", "ORDER BY 3", "GROUP BY 1.5"])
def test_places_that_name_no_result_are_refused(engine: QueryEngine, clause: str) -> None:
    with pytest.raises(LanceGatewayError):
        engine.prepare(f"SELECT id, {COUNT} AS n FROM t {clause}").execute().read_all()


@pytest.mark.parametrize("marks", [("?", "?", "?"), ("$1", "$2", "$3")])
def test_parameters_keep_their_order(engine: QueryEngine, marks: tuple[str, str, str]) -> None:
    one, two, three = marks
    count = f"(SELECT count(*) FROM u WHERE u.b + {two} < t.v)"
    sql = f"SELECT id + {one} AS a, {count} AS c FROM t WHERE id < {three}"
    assert sorted(ask(engine, sql, 100, 10, 2)) == [(100, 0), (101, 1)]
    assert [str(kind) for kind in engine.prepare(sql).parameter_schema.types] == ["int64"] * 3


def test_what_a_parameter_may_not_be_without_a_value_is_left_to_the_run(engine: QueryEngine) -> None:
    sql = (
        "SELECT id, ntile($1) OVER (ORDER BY id) AS half FROM t JOIN u ON t.id = u.k "
        "WHERE EXISTS (SELECT 1 FROM u AS w WHERE w.k = t.id)"
    )
    assert sorted(ask(engine, sql, 2)) == [(0, 1), (1, 1), (2, 2), (3, 2)]


def test_a_parameter_limits_the_rows_of_each_row(engine: QueryEngine) -> None:
    sql = "SELECT t.id, l.k FROM t, LATERAL (SELECT u.k FROM u WHERE u.b < t.v ORDER BY u.k LIMIT ?) AS l"
    assert sorted(ask(engine, sql, 1)) == [(0, 0), (1, 0), (3, 0), (4, 0)]
    assert len(ask(engine, sql, 2)) == 7


def test_a_value_of_several_rows_is_an_error_of_the_row_that_asks(engine: QueryEngine) -> None:
    sql = "SELECT id, (SELECT u.k FROM u WHERE u.b < t.v) AS k FROM t"
    assert sorted(ask(engine, f"{sql} WHERE id IN (0, 2)")) == [(0, 0), (2, None)]
    with pytest.raises(InvalidInputError, match=r"stands for a value has \d rows: .* LIMIT 1"):
        ask(engine, sql)
    lazily = f"SELECT id, CASE WHEN id = 0 THEN {sql[11 : sql.rindex(' AS k')]} END AS k FROM t"
    assert sorted(ask(engine, lazily)) == [(0, 0), (1, None), (2, None), (3, None), (4, None)]


def test_what_datafusion_plans_keeps_its_plan(engine: QueryEngine) -> None:
    for condition in (
        "EXISTS (SELECT 1 FROM u WHERE u.b < t.v)",
        "v IN (SELECT b FROM u WHERE u.k = t.id)",
        "v > (SELECT max(b) FROM u WHERE u.k = t.id)",
        "v > (SELECT max(b) FROM u)",
    ):
        assert "rows#" not in explain(engine, f"SELECT id FROM t WHERE {condition}")
    assert "rows#" not in explain(
        engine, "SELECT t.id FROM t, LATERAL (SELECT k FROM u WHERE u.k = t.id) AS l"
    )


@pytest.mark.parametrize("condition", ["u.k = t.id", "u.k = t.id AND u.b = t.v"])
def test_equal_keys_are_found_by_hashing(engine: QueryEngine, condition: str) -> None:
    plan = explain(engine, f"SELECT id, (SELECT k FROM u WHERE {condition} ORDER BY u.b LIMIT 1) AS k FROM t")
    assert "HashJoinExec" in plan
    assert "NestedLoopJoinExec" not in plan
    assert "CrossJoinExec" not in plan


def test_views_and_statements_over_them(engine: QueryEngine, root: Path) -> None:
    (root / "counted.view.sql").write_text(f"SELECT id, {COUNT} AS c FROM t")
    (root / "plain.view.sql").write_text("SELECT id AS n, v FROM t WHERE id < 3")
    assert sorted(ask(engine, "SELECT * FROM counted WHERE c > 0")) == [(0, 1), (1, 2), (3, 3), (4, 2)]
    assert sorted(ask(engine, "SELECT n, (SELECT count(*) FROM u WHERE u.b < p.v) AS c FROM plain AS p")) == [
        (0, 1), (1, 2), (2, 0),
    ]  # fmt: skip
    change(engine, f"CREATE VIEW made AS SELECT max({COUNT}) AS m FROM t")
    assert ask(engine, "SELECT m FROM made") == [(3,)]


def test_rows_that_were_written_a_moment_ago(engine: QueryEngine) -> None:
    change(engine, "CREATE TABLE w (k BIGINT PRIMARY KEY, b BIGINT)")
    sql = "SELECT id, (SELECT count(*) FROM w WHERE w.b < t.v) AS c FROM t"
    assert {count for _, count in ask(engine, sql)} == {0}
    change(engine, "INSERT INTO w VALUES (1, 15), (2, 30)")
    change(engine, "INSERT INTO w VALUES (2, 5)")
    assert sorted(ask(engine, sql)) == [(0, 1), (1, 2), (2, 0), (3, 2), (4, 2)]
    change(engine, "UPDATE w SET b = (SELECT count(*) FROM t WHERE t.v > w.b) WHERE k = 1")
    assert sorted(ask(engine, "SELECT k, b FROM w")) == [(1, 3), (2, 5)]


def test_other_dialects(engine: QueryEngine) -> None:
    settings = SessionSettings(dialect="mysql")
    sql = "SELECT `id`, (SELECT count(*) FROM `u` WHERE `u`.`b` < `t`.`v`) AS c FROM `t` WHERE `id` < 2"
    assert sorted(rows_of(engine.execute(sql, settings).read_all())) == [(0, 1), (1, 2)]


def test_explain_analyze(engine: QueryEngine) -> None:
    plan = engine.execute(f"EXPLAIN ANALYZE SELECT id, {COUNT} AS c FROM t").read_all()
    assert "output_rows" in "".join(plan["plan"].to_pylist())


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        (
            "SELECT id, (SELECT count(*) FROM u WHERE u.b < t.v + random()) AS c FROM t",
            "a function that gives another value each time",
        ),
        (
            "SELECT id, (SELECT count(*) FROM u WHERE u.b < q.v) AS c FROM (SELECT * FROM t LIMIT 3) AS q",
            "LIMIT without an order by all of its columns",
        ),
        (
            "SELECT (SELECT count(*) FROM u WHERE b < q.s) AS c FROM (SELECT sum(v) AS s FROM t) AS q",
            "sum may differ in its last digits",
        ),
        (
            "SELECT t.id FROM t RIGHT JOIN u ON t.id = u.k AND EXISTS (SELECT 1 FROM u AS w WHERE w.b < t.v)",
            "RIGHT, FULL, SEMI or ANTI JOIN",
        ),
        (
            "SELECT id, (SELECT count(*) FROM u WHERE u.b < t.v GROUP BY ROLLUP (u.k) LIMIT 1) AS c FROM t",
            "ROLLUP, CUBE and GROUPING SETS",
        ),
    ],
)
def test_a_refusal_tells_why_and_what_to_write(engine: QueryEngine, sql: str, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason) as refused:
        ask(engine, sql)
    assert "#" not in str(refused.value)


def test_what_datafusion_would_answer_wrongly_is_joined_or_refused(engine: QueryEngine) -> None:
    sql = (
        "SELECT t.id, l.r FROM t, LATERAL (SELECT row_number() OVER (ORDER BY u.k) AS r FROM u WHERE {}) AS l"
    )
    assert sorted(ask(engine, sql.format("u.b > t.v"))) == [(0, 1), (0, 2), (1, 1), (4, 1)]
    with pytest.raises(UnsupportedError, match="would answer a subquery of this statement wrongly"):
        ask(engine, sql.format("u.b > t.v + random()"))


@pytest.mark.parametrize(
    ("sql", "place"),
    [
        (f"SELECT id, {COUNT}, FROM t WHERE", "Syntax error"),
        ("SELECT id, (SELECT count(*) FROM u WHERE u.b < t.nothing) AS c FROM t", "nothing"),
        ("SELECT id, (SELECT count(*) FROM nowhere WHERE b < t.v) AS c FROM t", "nowhere"),
        ("SELECT id, (SELECT nofunction(u.b) FROM u WHERE u.b < t.v LIMIT 1) AS c FROM t", "nofunction"),
        (f"SELECT id, l.c FROM t, LATERAL (SELECT u.nope AS c {OF_ROW}) AS l", "No field named u.nope"),
        (f"SELECT id, l.nope FROM t, LATERAL (SELECT u.k AS c {OF_ROW}) AS l", "No field named l.nope"),
        (f"SELECT id, l.c FROM t, LATERAL (SELECT abs(u.s) AS c {OF_ROW}) AS l", "No field named u.s"),
        (
            f"SELECT id FROM t,\nLATERAL (SELECT u.k AS c {OF_ROW}) AS l WHERE l.c === 3",
            "line 2, column 88",
        ),
    ],
)
def test_errors_are_about_what_was_written(engine: QueryEngine, sql: str, place: str) -> None:
    with pytest.raises(LanceGatewayError, match=re.escape(place)) as refused:
        ask(engine, sql)
    assert not isinstance(refused.value, UnsupportedError)
    assert "rows#" not in str(refused.value)
    assert "key#" not in str(refused.value)


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT id, {COUNT} AS c FROM t",
        f"SELECT t.id, l.k FROM t, LATERAL (SELECT u.k {OF_ROW}) AS l",
        f"EXPLAIN SELECT id, {COUNT} AS c FROM t",
    ],
)
def test_the_text_that_was_written_is_the_one_that_is_shown(engine: QueryEngine, sql: str) -> None:
    """In logs, traces, `system.queries` and errors of a table that has changed."""
    assert engine.prepare(sql).sql == sql


def test_a_table_that_has_changed_is_told_of_with_the_text_that_was_written(
    engine: QueryEngine, root: Path
) -> None:
    sql = f"SELECT *, {COUNT} AS c FROM t"
    query = engine.prepare(sql)
    assert query.execute().read_all().num_rows == len(T)
    lance.dataset(root / "t.lance").add_columns({"more": "id + 1"})
    with pytest.raises(PreconditionError, match=re.escape(f"prepare it again: {sql}") + "$"):
        query.execute().read_all()


def test_null_equals_null_in_joins(engine: QueryEngine) -> None:
    """Without the filter that DataFusion makes of the keys of the other side, in which no NULL is."""
    sql = (
        "SELECT a.id, g.ks FROM t AS a "
        "LEFT JOIN (SELECT b.v, array_agg(b.id ORDER BY b.id) AS ks FROM t AS b "
        "JOIN (SELECT DISTINCT v FROM t) AS d ON (d.v IS NOT DISTINCT FROM b.v) GROUP BY b.v) AS g "
        "ON (g.v IS NOT DISTINCT FROM a.v) WHERE a.v IS NULL"
    )
    assert ask(engine, sql) == [(2, [2])]


PAST = (
    "SELECT id, (SELECT count(*) FROM {u} WHERE b < t.v) AS n FROM t",
    "SELECT id FROM t WHERE v < ANY (SELECT r.b FROM {u} AS r WHERE r.b IS NOT DISTINCT FROM t.v + 5)",
    "SELECT t.id, x.b FROM t, LATERAL (SELECT b FROM {u} AS r WHERE r.k >= t.id ORDER BY r.k LIMIT 1) AS x",
    "SELECT k, EXISTS (SELECT 1 FROM t WHERE t.v > r.b + r.k) AS e FROM {u} AS r",
    "SELECT id, (SELECT max(old) FROM {u} AS r WHERE r.b < t.v) AS n FROM t",
)


@pytest.mark.parametrize("statement", PAST)
@pytest.mark.parametrize("past", ["VERSION AS OF 1", "FOR VERSION AS OF 1", "FOR VERSION AS OF 'first'"])
def test_subqueries_over_the_past_are_joined(
    root: Path, engine: QueryEngine, statement: str, past: str
) -> None:
    """The rows and columns are those of that version."""
    first = U.append_column("old", pa.array([1, 2, 3, 4], pa.int64()))
    table = lance.write_dataset(first, root / "u.lance", mode="overwrite")
    lance.write_dataset(first, root / "copy.lance")
    table.tags.create("first", table.version)
    table.delete("k = 1")
    table.drop_columns(["old"])
    past = past.replace("AS OF 1", f"AS OF {table.tags.list()['first']['version']}")
    expected = ask(engine, statement.format(u="copy"))
    assert sorted(map(repr, ask(engine, statement.format(u=f"u {past}")))) == sorted(map(repr, expected))


def test_the_past_by_an_expression(engine: QueryEngine) -> None:
    past = COUNT.replace("u WHERE", "u FOR TIMESTAMP AS OF now() AS u WHERE")
    assert ask(engine, f"SELECT id, {past} FROM t ORDER BY 1") == ask(
        engine, f"SELECT id, {COUNT} FROM t ORDER BY 1"
    )


CALLS = (
    "lance_changes('keyed', since => 1)",
    "lance_vector_search('w', 'vec', [1.0, 0.0], k => 9, prefilter => false)",
)
TWICE = "EXISTS (SELECT 1 FROM t WHERE t.v > {k} * 10 OFFSET 1)"


@pytest.fixture
def searched(root: Path, engine: QueryEngine) -> QueryEngine:
    vectors = pa.array([[1.0, 0.0], [0.0, 1.0]] * 2, pa.list_(pa.float32(), 2))
    lance.write_dataset(U.append_column("vec", vectors), root / "w.lance")
    change(engine, "CREATE TABLE keyed (k BIGINT PRIMARY KEY, b BIGINT)")
    change(engine, "INSERT INTO keyed SELECT k, b FROM u")
    return engine


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "statement",
    [
        f"SELECT k FROM {{}} WHERE {TWICE.format(k='k')}",
        f"SELECT c.k FROM {{}} AS c WHERE {TWICE.format(k='c.k')} AND c.k > 0",
        f"WITH q AS (SELECT * FROM {{}}) SELECT k FROM q WHERE {TWICE.format(k='q.k')}",
        "SELECT c.k, x.v FROM {} AS c, LATERAL (SELECT v FROM t WHERE t.id >= c.k ORDER BY v LIMIT 1) AS x",
    ],
)
def test_mistaken_subqueries_are_refused_beside_calls(
    searched: QueryEngine, call: str, statement: str
) -> None:
    with pytest.raises(UnsupportedError, match="would be read twice: write them into a table"):
        ask(searched, statement.format(call))


@pytest.mark.parametrize("call", CALLS)
def test_other_subqueries_are_answered_beside_calls(searched: QueryEngine, call: str) -> None:
    whole = ask(searched, f"SELECT k FROM {call}")
    found = ask(
        searched, f"SELECT k FROM {call} WHERE k IN (SELECT id FROM t) AND k >= (SELECT min(id) FROM t)"
    )
    assert sorted(found) == sorted(whole)
    assert whole


@pytest.mark.parametrize("call", CALLS)
def test_what_is_found_is_read_once_for_all_rows(searched: QueryEngine, call: str) -> None:
    sql = f"SELECT id, (SELECT count(*) FROM {call} AS c WHERE c.k < t.id) AS n FROM t ORDER BY id"
    assert ask(searched, sql) == [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]


def test_lists_of_what_is_found(searched: QueryEngine) -> None:
    sql = f"SELECT c.k, u.x FROM {CALLS[1]} AS c, UNNEST(c.vec) AS u(x) WHERE c.k < 2"
    assert sorted(ask(searched, sql)) == [(0, 0.0), (0, 1.0), (1, 0.0), (1, 1.0)]


def test_outputs_without_names_keep_those_of_datafusion(engine: QueryEngine) -> None:
    sql = f'WITH q AS (SELECT max({COUNT}) + 1, id + 1 FROM t GROUP BY id) SELECT "t.id + Int64(1)" FROM q'
    assert len(ask(engine, sql)) == len(T)
