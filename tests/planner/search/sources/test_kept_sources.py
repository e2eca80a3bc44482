"""A snapshot is divided into sources once for all searches of it, and its small sources are scored as one."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lance_gateway.execnodes.text.documents.joined_text import JoinedSources
from lance_gateway.execnodes.text.query.query import MatchQuery
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.scans.settings import DEFAULT_SETTINGS, NO_SHORTCUTS, SessionSettings
from lance_gateway.planner.search.sources import search_sources
from lance_gateway.planner.search.sources.source_texts import SourceTexts
from lance_gateway.planner.tables.sources.caches import ByteCache
from tests.planner.search.texts.text_history import Layer, TextHistory, description
from tests.support.lake.tables import LsmTable, bucketed, key_field
from tests.support.processes.writer_process import WriterProcess

SCHEMA = pa.schema(
    [
        key_field("id", pa.int64()),
        pa.field("text", pa.string()),
        pa.field("vec", pa.list_(pa.float32(), 2)),
    ]
)
WORDS = ("red", "green", "blue", "redder", "teal")
GENERATIONS = 5
SEARCHES = [
    "SELECT id, _score FROM lance_fts('t', 'text', 'red teal', k => 12)",
    "SELECT id, _score FROM lance_fts('t', 'text', 'red', k => 12) WHERE id % 2 = 0",
    "SELECT id, _score FROM lance_fts('t', 'text', '\"green blue\"', k => 12)",
    "SELECT id, _score FROM lance_fts('t', 'text', 'red', fuzziness => 2, k => 12)",
    "SELECT id, _distance FROM lance_vector_search('t', 'vec', [3, 3], k => 12)",
    "SELECT id, _hybrid_score FROM lance_hybrid_search('t', 'vec', [3, 3], 'text', 'green', k => 12)",
]


def row(number: int, step: int) -> dict[str, Any]:
    text = " ".join(WORDS[(number + step * place) % len(WORDS)] for place in range(1 + (number + step) % 4))
    return {"id": number, "text": text, "vec": [number % 7, step]}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory, shared_writers: WriterProcess) -> LsmTable:
    """Several generations of two regions, whose keys repeat, and tombstones."""
    root = tmp_path_factory.mktemp("kept_sources")
    start = pa.Table.from_pylist([row(number, 0) for number in range(40)], schema=SCHEMA)
    made = LsmTable.create(root, "t", start, bucketed("id", 2, recorded=True), shared_writers)
    made.dataset().create_scalar_index("text", "INVERTED", with_position=True)
    for step in range(1, GENERATIONS + 1):
        made.put([row(number, step) for number in range(step * 5, step * 5 + 9)])
        made.delete([{"id": step}])
        made.close_writers()
    return made


@pytest.fixture
def engine(table: LsmTable, open_engine: Callable[[Path], QueryEngine]) -> QueryEngine:
    return open_engine(table.path.parent)


@pytest.fixture
def divided(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The columns for which sources were listed."""
    columns: list[str] = []
    list_them = search_sources.list_sources

    def note(snapshot: Any, masks: Any, regions: Any, column: str, kind: Any, **options: Any) -> Any:
        columns.append(column)
        return list_them(snapshot, masks, regions, column, kind, **options)

    monkeypatch.setattr(search_sources, "list_sources", note)
    return columns


def search(engine: QueryEngine, sql: str, settings: SessionSettings = DEFAULT_SETTINGS) -> list[Any]:
    rows: list[Any] = engine.execute(sql, settings=settings).read_all().to_pylist()
    return rows


def test_searches_of_a_snapshot_divide_it_once(
    engine: QueryEngine, table: LsmTable, divided: list[str]
) -> None:
    cyan = SEARCHES[0].replace("red teal", "cyan")
    far = SEARCHES[4].replace("[3, 3]", "[300, 300]")
    assert not search(engine, cyan)
    for sql in (SEARCHES[0], SEARCHES[4], far):
        assert search(engine, sql)
    assert divided == ["text", "vec"]
    table.put([{"id": 90, "text": "cyan", "vec": [300, 300]}])
    assert search(engine, cyan)[0]["id"] == search(engine, far)[0]["id"] == 90
    assert divided == ["text", "vec"] * 2
    table.delete([{"id": 90}])
    table.close_writers()
    assert not search(engine, cyan)
    assert 90 not in [one["id"] for one in search(engine, far)]


@pytest.mark.parametrize("sql", SEARCHES)
def test_answers_are_those_of_sources_that_are_divided_anew(engine: QueryEngine, sql: str) -> None:
    again = search(engine, sql, replace(DEFAULT_SETTINGS, shortcuts=NO_SHORTCUTS))
    assert again
    for _ in range(2):
        assert search(engine, sql) == again


LAYERS = [
    Layer([(number, (" ".join(WORDS[: 1 + number % 4]),)) for number in range(30)]),
    *(Layer([(number + step, (WORDS[step],)) for number in range(0, 40, 7)], "flat") for step in range(4)),
    Layer([(5, ("teal",)), (6, None)], "tail"),
]


@pytest.mark.parametrize("cache_bytes", [1 << 26, 1 << 12], ids=["kept", "no room"])
def test_texts_of_the_same_sources_are_opened_once_if_there_is_room(tmp_path: Path, cache_bytes: int) -> None:
    history = TextHistory(tmp_path)
    for layer in LAYERS:
        history.add(layer)
    sources, cache = history.sources(), ByteCache(cache_bytes)
    base: Any = sources[0].rows
    texts = SourceTexts({"body": description(base.dataset)}, cache, history.decoded, base.place)
    opened = texts.open(sources, keeps=True)
    assert [joined.numbers for joined in opened.joined] == [(1, 2, 3, 4)]
    again = texts.open(sources, keeps=True)
    assert (again is opened) == (cache_bytes > opened.nbytes)
    assert texts.open(history.sources(), keeps=True) is not opened
    for word in (*WORDS, "absent"):
        apart = sum(text.frequency("body", word) for text in opened.texts.values())
        assert sum(text.frequency("body", word) for text in opened.corpus) == apart
    assert cache.nbytes <= cache_bytes


def test_joined_documents_outlive_writes_and_their_live_rows_do_not(tmp_path: Path) -> None:
    history = TextHistory(tmp_path)
    for layer in (*LAYERS, Layer([(7, ("teal",))], "tail")):
        history.add(layer)
    base: Any = history.sources()[0].rows
    cache = ByteCache(1 << 26)
    texts = SourceTexts({"body": description(base.dataset)}, cache, history.decoded, base.place)

    def open_texts() -> tuple[JoinedSources, ...]:
        opened = texts.open(history.sources(), keeps=True)
        for word in WORDS:
            apart = sum(text.frequency("body", word) for text in opened.texts.values())
            assert sum(text.frequency("body", word) for text in opened.corpus) == apart
        return opened.joined

    generations, logs = open_texts()
    history.put((50, (WORDS[0],)))
    assert open_texts()[0] is generations
    history.put((21, (WORDS[0],)))
    superseding, more_logs = open_texts()
    assert superseding.text.columns is generations.text.columns
    assert superseding.text.live.sum() == generations.text.live.sum() - 1
    assert more_logs.text.columns is not logs.text.columns


def test_joined_postings_are_counted_before_they_are_joined(tmp_path: Path) -> None:
    history = TextHistory(tmp_path)
    for layer in LAYERS:
        history.add(layer)
    history.search(MatchQuery("red teal", "body"))
    (_, _, search) = history.node.searches
    joined = search.joined.text.columns["body"]
    bound = joined.nbytes
    postings = [joined.postings(word) for word in WORDS]
    arrays = [(one.documents, one.frequencies, one.positions, one.offsets) for one in postings]
    assert sum(one.nbytes for of_word in arrays for one in of_word) <= bound
    assert joined.nbytes == bound
