"""A principal's searches answer like those in a table that holds nothing but what the principal may see."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lance_gateway.planner.access.rights import TableAccess
from tests.planner.search.policy.policy_lake import QUERY, RARE, Lake, answer
from tests.support.judging.principals import create_principal
from tests.support.processes.writer_process import WriterProcess

ROWS = (
    None,
    "tenant = 'a'",
    "tenant = 'a' AND lower(note) <> 'x'",
    "id % 3 <> 1",
    "id IN (1, 5, 9, 40, 41, 50, 52)",
    "id = 12",
    "pages < 5 OR body LIKE '%merge%'",
    "title IS NOT NULL",
    "false",
)
MASKS = {
    "id": ("id % 10", "7"),
    "title": ("lower(title)", "'T1'", "NULL"),
    "pages": ("pages % 2", "NULL"),
    "tenant": ("'?'", "upper(tenant)"),
    "note": ("body", "concat(note, '!')"),
}
HIDEABLE = ("tenant", "note", "secret", "title")

CONDITIONS = (
    "true",
    "title = 'T1'",
    "title LIKE 't%'",
    "pages = 1",
    "pages % 2 = 0",
    "id > 20",
    "id IN (5, 7, 12, 41, 52)",
    "tenant <> 'b'",
    "tenant = 'A' OR pages > 3",
    "length(note) > 1",
    "title IS NULL AND id < 60",
    "10 / (pages - 3) > 0",
)
_VECTORS = "lance_vector_search('docs', 'vec', {query}, k => {k}"
_TEXTS = "lance_fts('docs', 'body', '{words}', k => {k}"
_BOTH = "lance_hybrid_search('docs', 'vec', {query}, 'body', '{words}', k => {k}"
_TWO = "lance_vector_search('docs', 'vec', [{query}, [0, 0, 1, 0]], k => {k})"
SEARCHES = (
    f"SELECT * EXCLUDE (secret) FROM {_VECTORS}) WHERE {{condition}}",
    f"SELECT id, _distance FROM {_VECTORS}, prefilter => false) WHERE {{condition}}",
    f"SELECT id, vec FROM {_VECTORS}, staleness => 'bloom') WHERE {{condition}}",
    f"SELECT query_index, id FROM {_TWO} WHERE {{condition}} ORDER BY query_index, _distance",
    f"SELECT count(*), min(pages), max(_distance) FROM {_VECTORS}, metric => 'cosine') WHERE {{condition}}",
    "SELECT id, l2_distance(vec, {query}) AS d FROM docs WHERE {condition} ORDER BY d LIMIT {k}",
    "SELECT id, pages FROM docs WHERE {condition} ORDER BY cosine_distance(vec, {query}) LIMIT {k}",
    f"SELECT id, title, body, _score FROM {_TEXTS}) WHERE {{condition}}",
    f"SELECT id, _score FROM {_TEXTS}, fuzziness => 1, max_expansions => 1) WHERE {{condition}}",
    f"SELECT id, _score FROM {_TEXTS}, prefilter => false) WHERE {{condition}}",
    f"SELECT id, pages, _hybrid_score, _distance, _score FROM {_BOTH}) WHERE {{condition}}",
    f"SELECT id, _hybrid_score FROM {_BOTH}, fusion => 'rrf') WHERE {{condition}}",
    "SELECT secret FROM lance_vector_search('docs', 'secret', {query}, k => {k}) WHERE {condition}",
)
WORDS = (
    "lake",
    f"{RARE} stream",
    "merge vector",
    "lakx",
    "strean merg",
    "region flush index",
    RARE,
    "absent",
)


@st.composite
def accesses(draw: st.DrawFn) -> TableAccess:
    hidden = draw(st.frozensets(st.sampled_from(HIDEABLE), max_size=2))
    maskable = {name: st.sampled_from(texts) for name, texts in MASKS.items() if name not in hidden}
    masks = draw(st.fixed_dictionaries({}, optional=maskable))
    return TableAccess(draw(st.sampled_from(ROWS)), masks, hidden)


@st.composite
def searches(draw: st.DrawFn) -> str:
    return draw(st.sampled_from(SEARCHES)).format(
        query=QUERY,
        k=draw(st.sampled_from((1, 3, 10, 100))),
        condition=draw(st.sampled_from(CONDITIONS)),
        words=draw(st.sampled_from(WORDS)),
    )


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, shared_writers: WriterProcess) -> Iterator[Lake]:
    lake = Lake(tmp_path_factory.mktemp("policies"), shared_writers)
    yield lake
    lake.engine.close()


def check(lake: Lake, access: TableAccess, asked: list[str]) -> None:
    twin = lake.twin(access)
    try:
        for sql in asked:
            assert answer(lake.engine, sql, create_principal(docs=access)) == answer(twin, sql), sql
    finally:
        twin.close()


SETTINGS = settings(
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.generate,),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.mark.slow
@settings(SETTINGS, max_examples=10)
@given(access=accesses(), asked=st.lists(searches(), min_size=15, max_size=15))
@pytest.mark.soak
def test_searches_see_what_their_principal_sees(lake: Lake, access: TableAccess, asked: list[str]):
    check(lake, access, asked)


@pytest.mark.soak
@pytest.mark.timeout(0)
@settings(SETTINGS, max_examples=300, derandomize=False)
@given(access=accesses(), asked=st.lists(searches(), min_size=15, max_size=15))
def test_many_searches_see_what_their_principal_sees(lake: Lake, access: TableAccess, asked: list[str]):
    check(lake, access, asked)
