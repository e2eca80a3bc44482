"""A table that is searched, beside a plain replay of what was written to it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from lance.query import FullTextQuery, MatchQuery

from lance_gateway.planner.engine import QueryEngine
from tests.oracle.answers import text_answers
from tests.oracle.answers.ranked import DISTANCES, SCORES, Key, Ranking
from tests.oracle.answers.searched import Searched
from tests.oracle.answers.vector_answers import distances, literal
from tests.support.lake import manifests
from tests.support.lake.merging import clean_up_merged, merge_generations
from tests.support.lake.tables import Layout, LsmTable, Row, key_field, unpartitioned
from tests.support.processes.writer_process import WriterProcess

Ask = Callable[[str], pa.Table]

DIMENSION = 8
TOKENIZER = {"with_position": True}
_KEY = (key_field("id", pa.int64()),)
_FLOAT = pa.float32()
_ONE_REGION = unpartitioned(("id",), 1)


def asking(engine: QueryEngine) -> Ask:
    """Answers of an engine in this process."""
    return lambda sql: engine.prepare(sql).execute().read_all()


def axis(number: int, length: float = 1.0) -> list[float]:
    """A vector along one axis."""
    return [length if place == number % DIMENSION else 0.0 for place in range(DIMENSION)]


class ReplayedTable:
    """Base rows, generations and a log; a dict knows what must be found.

    Rows are given without what they leave NULL.
    """

    def __init__(
        self,
        root: Path,
        writers: WriterProcess,
        rows: Iterable[Row] = (),
        *,
        key: tuple[pa.Field, ...] = _KEY,
        layout: Layout = _ONE_REGION,
        name: str = "docs",
        element: pa.DataType = _FLOAT,
        **config: Any,
    ) -> None:
        values = [("vec", pa.list_(element, DIMENSION)), ("txt", pa.string()), ("n", pa.int32())]
        self.schema = pa.schema([*key, *(pa.field(column, kind) for column, kind in values)])
        base = pa.Table.from_pylist(list(rows), schema=self.schema)
        self.table = LsmTable.create(
            root, name, base, layout, writers, **{"max_memtable_rows": 1000, **config}
        )
        self.rows: dict[Key, Row] = {}
        self._replay(base.to_pylist())

    @property
    def name(self) -> str:
        return self.table.name

    # Steps

    def put(self, *rows: Row) -> None:
        whole = pa.Table.from_pylist(list(rows), schema=self.schema).to_pylist()
        self.table.put(whole)
        self._replay(whole)

    def delete(self, *keys: Row) -> None:
        self.table.delete(keys)
        for key in keys:
            self.rows.pop(self._key(key), None)

    def flush(self) -> None:
        """What is in memory becomes a generation."""
        self.table.close_writers()

    def merge(self, up_to: int | None = None) -> None:
        """Generations move into the base table; no index learns of it."""
        for region in self.table.regions.values():
            flushed = self._unmerged(region)
            if flushed:
                merge_generations(self.table.path, region, up_to or max(flushed))

    def clean_up(self) -> None:
        for region in self.table.regions.values():
            clean_up_merged(self.table.path, region)

    def index_vectors(self, kind: str = "IVF_FLAT", metric: str = "l2", **options: Any) -> None:
        options = {"num_partitions": 2, **options}
        self.table.dataset().create_index(
            "vec", kind, name="vec_index", metric=metric, replace=True, **options
        )

    def index_texts(self) -> None:
        self.table.dataset().create_scalar_index("txt", "INVERTED", name="txt_index", **TOKENIZER)

    def catch_up(self) -> None:
        self.table.dataset().optimize.optimize_indices()

    # Checks

    def check_nearest(
        self,
        ask: Ask,
        query: Sequence[float],
        k: int,
        *,
        metric: str = "l2",
        options: str = "",
        where: str | None = None,
        keeps: Callable[[Row], bool] = lambda _: True,
    ) -> list[Key]:
        """The nearest rows are the nearest of the replay; their keys."""
        sql = self.nearest(query, k, metric=metric, options=options, where=where)
        answer = ask(sql)
        vectors = [(key, row["vec"]) for key, row in self.rows.items() if keeps(row)]
        ranking = Ranking(distances(vectors, query, metric), DISTANCES)
        keys = self._keys(answer)
        ranking.check(list(zip(keys, answer["_distance"].to_pylist(), strict=True)), k, sql)
        return keys

    def nearest(
        self,
        query: Sequence[float],
        k: int,
        *,
        metric: str = "l2",
        options: str = "",
        where: str | None = None,
    ) -> str:
        """The statement that finds them."""
        called = f"'{self.name}', 'vec', {literal(query)}, k => {k}, metric => '{metric}'"
        called += f", {options}" if options else ""
        condition = f" WHERE {where}" if where else ""
        columns = ", ".join(self.table.key)
        return f"SELECT {columns}, _distance FROM lance_vector_search({called}){condition} ORDER BY _distance"

    def check_texts(
        self,
        ask: Ask,
        words: str,
        k: int = 10,
        *,
        options: str = "",
        query: FullTextQuery | None = None,
        where: str | None = None,
        keeps: Callable[[Row], bool] = lambda _: True,
    ) -> list[Key]:
        """The best matches are those of the replay in one fresh table; their keys."""
        sql = self.matching(words, k, options=options, where=where)
        answer = ask(sql)
        scored = text_answers.scores(self.searched(), query or MatchQuery(words, "txt"))
        known = {key: score for key, score in scored.items() if keeps(self.rows[key])}
        keys = self._keys(answer)
        found = list(zip(keys, answer["_score"].to_pylist(), strict=True))
        Ranking(known, SCORES, descending=True).check(found, k, sql)
        return keys

    def matching(self, words: str, k: int = 10, *, options: str = "", where: str | None = None) -> str:
        """The statement that finds them."""
        called = f"'{self.name}', 'txt', '{words}', k => {k}" + (f", {options}" if options else "")
        condition = f" WHERE {where}" if where else ""
        columns = ", ".join(self.table.key)
        return f"SELECT {columns}, _score FROM lance_fts({called}){condition} ORDER BY _score DESC"

    def searched(self) -> Searched:
        rows = pa.Table.from_pylist(list(self.rows.values()), schema=self.schema)
        return Searched(self.name, self.table.key, (), rows, "vec", ("txt",), TOKENIZER)

    # Pieces

    def _unmerged(self, region: str) -> list[int]:
        """Numbers of the generations that the base table does not contain."""
        done = manifests.read_merged_generations(self.table.path).get(region, 0)
        entries = manifests.read_manifest(self.table.path, region).flushed_generations
        return [entry.generation for entry in entries if entry.generation > done]

    def _replay(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self.rows |= {self._key(row): dict(row) for row in rows}

    def _key(self, row: Mapping[str, Any]) -> Key:
        return tuple(row[name] for name in self.table.key)

    def _keys(self, answer: pa.Table) -> list[Key]:
        return list(zip(*(answer[name].to_pylist() for name in self.table.key), strict=True))
