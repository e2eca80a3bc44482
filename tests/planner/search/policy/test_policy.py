"""Ways round a policy by searching, each by its name, and that they lead nowhere."""

import json
from collections.abc import Iterator
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError, NotFoundError
from lance_gateway.planner.access.rights import FULL_ACCESS, TableAccess
from tests.planner.search.policy.policy_lake import QUERY, RARE, Lake, answer, filter_visible
from tests.support.judging.principals import ALL, Principal, create_principal
from tests.support.processes.writer_process import WriterProcess

OF_ANALYST = TableAccess(
    row_filter="tenant = 'a' AND right(note, 1) <> 'x'",
    masks={"title": "'T?'", "pages": "pages % 2", "secret": "vec"},
    hidden_columns=frozenset({"note"}),
)
ANALYST = create_principal(docs=OF_ANALYST, near=ALL, bonus=ALL)
"""`bonus` is a view that searches a table for which the analyst has no grant."""
NEAREST = f"lance_vector_search('docs', 'vec', {QUERY}, k => 5)"
WORDS = f"lance_fts('docs', 'body', '{RARE} lake', k => 5)"
BOTH = f"lance_hybrid_search('docs', 'vec', {QUERY}, 'body', '{RARE} lake', k => 5)"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, shared_writers: WriterProcess) -> Iterator[Lake]:
    lake = Lake(tmp_path_factory.mktemp("policy"), shared_writers)
    wages = pa.table({"id": [1], "body": ["wages of the boss"], "vec": lake.rows.column("vec")[:1]})
    lance.write_dataset(wages, lake.root / "payroll.lance").create_scalar_index("body", "INVERTED")
    dataset = lance.dataset(lake.root / "docs.lance")
    dataset.create_scalar_index("note", "INVERTED")
    (lake.root / "near.view.sql").write_text(f"SELECT id, _distance FROM {NEAREST}")
    (lake.root / "bonus.view.sql").write_text("SELECT * FROM lance_fts('payroll', 'body', 'wages')")
    yield lake
    lake.engine.close()


@pytest.fixture(scope="module")
def visible(lake: Lake) -> set[int]:
    return set(filter_visible(lake.rows, OF_ANALYST).column("id").to_pylist())


def found(lake: Lake, sql: str, access: Any = ANALYST) -> list[dict[str, Any]]:
    rows = answer(lake.engine, sql, access)
    assert not isinstance(rows, str), rows
    return rows


def refusal(lake: Lake, sql: str, access: Any = ANALYST) -> LanceGatewayError:
    with pytest.raises(LanceGatewayError) as caught:
        lake.engine.prepare(sql, access=access).execute().read_all()
    return caught.value


@pytest.mark.slow
@pytest.mark.parametrize("search", [NEAREST, WORDS, BOTH])
def test_the_bait_is_taken_by_those_who_see_it(lake: Lake, visible: set[int], search: str):
    ids = {row["id"] for row in found(lake, f"SELECT id FROM {search}", FULL_ACCESS)}
    assert ids.isdisjoint(visible)


@pytest.mark.slow
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM {search}",
        "SELECT id FROM {search} WHERE tenant = 'b' OR tenant <> 'b'",
        "WITH docs AS (SELECT * FROM {search}) SELECT id FROM docs",
        "SELECT id FROM (SELECT * FROM {search}) AS s ORDER BY id",
        "SELECT s.id FROM {search} AS s JOIN docs AS d ON d.id = s.id",
        "SELECT id FROM {search} UNION SELECT id FROM {search}",
        "SELECT id FROM docs WHERE id IN (SELECT id FROM {search})",
        "SELECT id FROM docs d WHERE EXISTS (SELECT 1 FROM {search} AS s WHERE s.id = d.id)",
        "SELECT l.id FROM (VALUES (1)) AS v(n), LATERAL (SELECT id FROM {search}) AS l",
    ],
)
def test_detours_to_hidden_rows(lake: Lake, visible: set[int], sql: str):
    for search in (NEAREST, WORDS, BOTH):
        for k in (5, 1000):
            asked = sql.format(search=search.replace("k => 5", f"k => {k}"))
            ids = {row["id"] for row in found(lake, asked)}
            assert ids <= visible
            assert len(ids) == min(k, len(visible))


@pytest.mark.parametrize("staleness", ["exact", "bloom", "approximate"])
@pytest.mark.parametrize(
    "option", ["use_index => false", "nprobes => 1", "refine_factor => 3", "metric => 'dot'"]
)
def test_no_option_shows_hidden_rows(lake: Lake, visible: set[int], staleness: str, option: str):
    search = NEAREST.replace("k => 5", f"k => 1000, staleness => '{staleness}', {option}")
    ids = [row["id"] for row in found(lake, f"SELECT id FROM {search}")]
    assert len(ids) == len(set(ids))
    assert set(ids) <= visible
    if staleness != "approximate":
        assert set(ids) == visible


def test_hidden_rows_take_no_place(lake: Lake, visible: set[int]):
    for search in (NEAREST, WORDS, BOTH):
        postfiltered = search.replace("k => 5", "k => 5, prefilter => false")
        for asked in (search, postfiltered):
            rows = found(lake, f"SELECT id FROM {asked} WHERE tenant = 'a'")
            assert len(rows) == 5
            assert {row["id"] for row in rows} <= visible


@pytest.mark.slow
def test_a_score_does_not_tell_of_hidden_rows(lake: Lake):
    """The word of hidden rows is unknown, and the common one is as common as it is in what is seen."""
    assert found(lake, f"SELECT id FROM lance_fts('docs', 'body', '{RARE}')") == []
    twin = lake.twin(OF_ANALYST)
    for query in ("'lake'", f"'{RARE} lake'", "'merge flush'", "'lakx', fuzziness => 1, max_expansions => 1"):
        sql = f"SELECT id, _score FROM lance_fts('docs', 'body', {query}, k => 50)"
        assert found(lake, sql) == answer(twin, sql)
        assert found(lake, sql) != found(lake, sql, FULL_ACCESS)
    twin.close()


@pytest.mark.slow
def test_who_asked_before_makes_no_difference(lake: Lake, visible: set[int]):
    """The second run of a statement is planned another way, and caches are shared."""
    other = create_principal(docs=TableAccess(row_filter="tenant = 'b'"))
    for search in (NEAREST, WORDS, BOTH):
        statements = [
            lake.engine.prepare(f"SELECT id FROM {search}", access=access)
            for access in (FULL_ACCESS, other, ANALYST)
        ]
        for _ in range(3):
            everybody, others, mine = [
                set(one.execute().read_all().column("id").to_pylist()) for one in statements
            ]
            assert mine <= visible
            assert others.isdisjoint(visible)
            assert everybody.isdisjoint(visible)


@pytest.mark.parametrize(
    "call",
    [
        "lance_fts('docs', 'note', 'ok')",
        "lance_fts('docs', ['body', 'note'], 'ok')",
        f"lance_hybrid_search('docs', 'vec', {QUERY}, 'note', 'ok')",
        f"lance_vector_search('docs', 'note', {QUERY})",
        *(
            f"lance_fts('docs', 'body', '{json.dumps(query)}')"
            for query in (
                {"match": {"column": "note", "terms": "ok"}},
                {"phrase": {"column": "note", "terms": "ok"}},
                {"boolean": {"should": [{"match": {"column": "note", "terms": "ok"}}]}},
                {"boolean": {"must_not": [{"match": {"column": "note", "terms": "ok"}}]}},
                {"multi_match": {"query": "ok", "columns": ["body", "note"]}},
                {
                    "boost": {
                        "positive": {"match": {"terms": "lake"}},
                        "negative": {"match": {"column": "note", "terms": "ok"}},
                    }
                },
            )
        ),
    ],
)
def test_a_hidden_column_does_not_exist(lake: Lake, call: str):
    error = refusal(lake, f"SELECT * FROM {call}")
    absent = refusal(lake, f"SELECT * FROM {call.replace('note', 'absent')}")
    assert type(error) is type(absent)
    assert str(error) == str(absent).replace("absent", "note")


def test_hidden_columns_are_not_listed(lake: Lake):
    for call in (
        "lance_fts('docs', 'absent', 'ok')",
        "lance_fts('docs', 'tenant', 'ok')",
        "lance_vector_search('docs', 'nothing', [1])",
    ):
        assert "note" not in str(refusal(lake, f"SELECT * FROM {call}"))
    for search in (NEAREST, WORDS, BOTH):
        assert "note" not in found(lake, f"SELECT * FROM {search}")[0]
        for text in (f"SELECT note FROM {search}", f"SELECT id FROM {search} WHERE note = 'ok'"):
            assert "note" not in str(refusal(lake, text)).partition("Valid fields")[2]


@pytest.mark.parametrize(
    "call",
    [
        f"lance_vector_search('docs', 'secret', {QUERY})",
        "lance_fts('docs', 'title', 'T1')",
        "lance_fts('docs', ['body', 'title'], 'T1')",
        """lance_fts('docs', 'body', '{"match": {"column": "title", "terms": "T1"}}')""",
        f"lance_hybrid_search('docs', 'secret', {QUERY}, 'body', 'lake')",
        f"lance_hybrid_search('docs', 'vec', {QUERY}, 'title', 'T1')",
    ],
)
def test_a_masked_column_is_not_searched(lake: Lake, call: str):
    error = refusal(lake, f"SELECT * FROM {call}")
    assert isinstance(error, InvalidInputError)
    assert "is masked by your access policy" in str(error)


@pytest.mark.slow
def test_masked_values_are_what_is_seen(lake: Lake):
    for search in (NEAREST, WORDS, BOTH):
        rows = found(lake, f"SELECT title, pages, vec, secret FROM {search}")
        assert all(
            row["title"] == "T?" and row["pages"] in (0, 1) and row["secret"] == row["vec"] for row in rows
        )
        assert found(lake, f"SELECT id FROM {search} WHERE title = 'T1'") == []
        assert len(found(lake, f"SELECT id FROM {search} WHERE title = 'T?' AND pages < 2")) == 5
        assert found(lake, f"SELECT id FROM {search} WHERE upper(title) LIKE 'T_' AND pages + 0 > 1") == []


@pytest.mark.slow
@pytest.mark.parametrize("order", ["ORDER BY d LIMIT 4", "ORDER BY d DESC LIMIT 4", "ORDER BY d, id LIMIT 4"])
def test_distances_of_a_masked_column_are_of_its_mask(lake: Lake, order: str):
    twin = lake.twin(OF_ANALYST)
    for column in ("secret", "vec"):
        sql = f"SELECT id, l2_distance({column}, {QUERY}) AS d FROM docs {order}"
        assert found(lake, sql) == answer(twin, sql)
        near = f"SELECT id FROM docs WHERE l2_distance({column}, {QUERY}) < 0.4"
        assert sorted(found(lake, near), key=str) == sorted(answer(twin, near), key=str)
    twin.close()


def test_the_idiom_finds_no_hidden_rows(lake: Lake, visible: set[int]):
    for sql in (
        f"SELECT id FROM docs ORDER BY l2_distance(vec, {QUERY}) LIMIT 1000",
        f"SELECT id FROM docs ORDER BY vec <-> '{QUERY}' LIMIT 1000",
        f"SELECT id FROM docs WHERE title = 'T?' ORDER BY cosine_distance(vec, {QUERY}) LIMIT 1000",
    ):
        assert {row["id"] for row in found(lake, sql)} == visible


@pytest.mark.slow
@pytest.mark.parametrize(
    "condition",
    ["10 / (id - 41) < 99", "CAST(body AS INT) = 3 OR true", "10 / (pages - 5) IS NOT NULL"],
)
def test_errors_tell_nothing_of_hidden_rows(lake: Lake, visible: set[int], condition: str):
    """Row 41 is hidden, and no visible row has pages of 5 once they are masked."""
    assert 41 not in visible
    twin = lake.twin(OF_ANALYST)
    for search in (NEAREST, WORDS, BOTH):
        sql = f"SELECT id FROM {search} WHERE {condition}"
        assert answer(lake.engine, sql, ANALYST) == answer(twin, sql)
    twin.close()


def test_query_vectors_are_taken_from_what_is_seen(lake: Lake, visible: set[int]):
    def nearest(column: str, number: int) -> list[dict[str, Any]]:
        rows = f"SELECT {column} FROM docs WHERE id = {number}"
        return found(lake, f"SELECT id FROM lance_vector_search('docs', 'vec', ({rows}), k => 1)")

    assert nearest("vec", 41) == []
    assert nearest("vec", min(visible)) == nearest("secret", min(visible)) == [{"id": min(visible)}]
    every = "lance_vector_search('docs', 'vec', (SELECT vec FROM docs))"
    assert found(lake, f"SELECT count(DISTINCT query_index) AS n FROM {every}") == [{"n": len(visible)}]
    message = refusal(lake, "SELECT * FROM lance_vector_search('docs', 'vec', (SELECT vec FROM payroll))")
    assert "Table 'payroll' does not exist" in str(message)


@pytest.mark.parametrize("table", ["payroll", "private"])
@pytest.mark.parametrize(
    "call",
    [
        "lance_vector_search('{}', 'vec', [0, 0, 0, 0])",
        "lance_fts('{}', 'body', 'wages')",
        "lance_hybrid_search('{}', 'vec', [0, 0, 0, 0], 'body', 'wages')",
        "lance_fts('main.{}', 'body', 'wages')",
    ],
)
def test_a_table_without_a_grant_does_not_exist(lake: Lake, table: str, call: str):
    sql = f"SELECT * FROM {call.format(table)}"
    error = refusal(lake, sql)
    assert isinstance(error, NotFoundError)
    assert str(error) == str(refusal(lake, sql.replace(table, "absent"))).replace("absent", table)
    assert "payroll," not in str(error)


def test_a_view_that_searches_does_not_lend_rights(lake: Lake, visible: set[int]):
    ids = {row["id"] for row in found(lake, "SELECT id FROM near")}
    assert ids <= visible
    assert len(ids) == 5
    assert "View 'bonus': Table 'payroll' does not exist" in str(refusal(lake, "SELECT * FROM bonus"))
    assert "does not exist" in str(refusal(lake, "SELECT * FROM near", Principal({"near": ALL})))


@pytest.mark.parametrize("search", [NEAREST, WORDS, BOTH, f"docs ORDER BY l2_distance(vec, {QUERY}) LIMIT 3"])
@pytest.mark.parametrize(
    "explain",
    [
        "EXPLAIN",
        "EXPLAIN VERBOSE",
        "EXPLAIN ANALYZE",
        "EXPLAIN ANALYZE VERBOSE",
        "EXPLAIN ANALYZE FORMAT JSON",
    ],
)
def test_explain_does_not_show_how(lake: Lake, explain: str, search: str):
    text = json.dumps(found(lake, f"{explain} SELECT id, title FROM {search}"))
    told = 'is_restricted\\": true' if "JSON" in explain else "the access policy of this table applies"
    assert told in text
    for word in (
        "KnnExec",
        "FtsExec",
        "GlobalBM25",
        "df=",
        "idf",
        "right(",
        "'T?'",
        "note",
        "base v",
        "blocked",
    ):
        assert word not in text


def test_a_policy_that_does_not_fit_closes_searches_too(lake: Lake):
    for rows in ("absent = 1", "CAST(body AS INT) = 1"):
        broken = create_principal(docs=TableAccess(row_filter=rows))
        for search in (NEAREST, WORDS, BOTH):
            message = str(refusal(lake, f"SELECT id FROM {search}", broken))
            assert "the access policy of table 'docs' does not fit the table" in message
            assert "lake" not in message
