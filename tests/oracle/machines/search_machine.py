"""Random histories of tables that are searched: vectors move, texts change, indexes come, lag and go."""

from collections.abc import Callable
from typing import Any, ClassVar

import lance
import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.oracle.answers import queries, text_answers, vector_answers
from tests.oracle.answers.predicates import Draw
from tests.oracle.answers.search_rows import FAR, TEXT, TITLE, VECTOR, many, text, vector
from tests.oracle.answers.searched import Question, Searched, VectorIndex
from tests.oracle.answers.vector_answers import Recall
from tests.oracle.machines.machine import Histories
from tests.oracle.replay.executors import Consistency
from tests.oracle.replay.flavours import FLAVOURS, Flavour
from tests.oracle.replay.subject import Subject, known_to
from tests.support.lake.tables import Row

INDEX_OPTIONS: dict[str, dict[str, int]] = {
    "IVF_FLAT": {},
    "IVF_PQ": {"num_sub_vectors": 4, "num_bits": 4},
    "IVF_SQ": {},
    "IVF_RQ": {"num_bits": 1},
    "IVF_HNSW_FLAT": {},
    "IVF_HNSW_PQ": {"num_sub_vectors": 4, "num_bits": 4},
    "IVF_HNSW_SQ": {},
}
MIN_TRAINED = 16
"""Vectors that an index of 4-bit codes wants to see."""


def _few_regions(flavour: Flavour) -> bool:
    return "identity(id)" not in flavour.layout.name and "truncate" not in flavour.layout.name


class SearchHistories(Histories):
    """Histories of tables with vectors and texts; every step is followed by searches."""

    flavours: ClassVar = {kind: tuple(filter(_few_regions, known)) for kind, known in FLAVOURS.items()}
    more_columns = (VECTOR, TEXT, TITLE)
    kept_columns = ("n", "s", VECTOR.name, TEXT.name, TITLE.name)
    searches_per_step: ClassVar[int] = 2
    bulk: ClassVar[tuple[int, ...]] = (20, 40)
    questions: ClassVar[tuple[Callable[[Draw, Searched, Recall], Question], ...]]
    recall: ClassVar[Recall]

    def __init__(self) -> None:
        super().__init__()
        self.vector_indexes: dict[str, VectorIndex] = {}
        self.tokenizers: dict[str, Any] = {}

    def cell(self, draw: Draw, column: str, data_type: pa.DataType, *, nullable: bool) -> Any:
        if column == VECTOR.name:
            return vector(draw)
        if column in {TEXT.name, TITLE.name}:
            return text(draw)
        return super().cell(draw, column, data_type, nullable=nullable)

    def has_stable_row_ids(self, draw: Draw) -> bool:
        return not draw(st.integers(0, 3), label="stable row ids, if 0")

    def _created(self, draw: Draw, name: str, key_kind: str) -> Subject:
        subject = super()._created(draw, name, key_kind)
        if draw(st.booleans(), label="many rows in the base"):
            dataset = subject.table.dataset()
            rows = self._many(draw, subject)
            upsert = dataset.merge_insert(list(subject.table.key)).when_matched_update_all()
            upsert.when_not_matched_insert_all().execute(pa.Table.from_pylist(rows, schema=dataset.schema))
            subject.model.load(rows)
        self._index_texts(draw, subject)
        if draw(st.booleans(), label="vector index"):
            self._index_vectors(draw, subject)
        return subject

    # Steps

    @rule(data=st.data())
    def put_many(self, data: Any) -> None:
        subject = data.draw(st.sampled_from(self.subjects))
        self._put_anywhere(subject, self._many(data.draw, subject))
        self.check(data)

    @rule(data=st.data())
    def move_far_away(self, data: Any) -> None:
        """Rows keep their keys, and their vectors leave."""
        self._rewrite(data, lambda row: row | {VECTOR.name: FAR})

    @rule(data=st.data())
    def write_the_same_again(self, data: Any) -> None:
        self._rewrite(data, lambda row: row)

    @rule(data=st.data())
    def index_vectors(self, data: Any) -> None:
        self._index_vectors(data.draw, data.draw(st.sampled_from(self.subjects)))
        self.check(data)

    @rule(data=st.data())
    def index_texts_anew(self, data: Any) -> None:
        """With other options perhaps, which generations know nothing of."""
        self._index_texts(data.draw, data.draw(st.sampled_from(self.subjects)))
        self.check(data)

    @rule(data=st.data())
    def catch_up(self, data: Any) -> None:
        subject = data.draw(st.sampled_from(self.subjects))
        segments = data.draw(st.sampled_from((None, 0, 1)))
        options: dict[str, Any] = {} if segments is None else {"num_indices_to_merge": segments}
        if data.draw(st.booleans(), label="one text index alone"):
            options["index_names"] = [f"{TEXT.name}_index"]
        subject.table.dataset().optimize.optimize_indices(**options)
        self.check(data)

    @rule(data=st.data())
    def compact(self, data: Any) -> None:
        """Where indexes cover different rows, Lance may plan what it then refuses."""
        subject = data.draw(st.sampled_from(self.subjects))
        try:
            subject.table.dataset().optimize.compact_files()
        except OSError as error:
            if "split of indexed and non-indexed data" not in str(error):
                raise
        self.check(data)

    @rule(data=st.data())
    def drop_the_vector_index(self, data: Any) -> None:
        subject = data.draw(st.sampled_from(self.subjects))
        if self.vector_indexes.pop(subject.table.name, None):
            subject.table.dataset().drop_index("vec_index")
        self.check(data)

    # Checks

    def check(self, data: Any) -> None:
        consistency: Consistency = data.draw(
            st.sampled_from(("strong", "strong", "flushed")), label="consistency"
        )
        for _ in range(self.searches_per_step):
            subject = data.draw(st.sampled_from(self.subjects))
            table = self._searched(data, subject, consistency)
            question = data.draw(st.sampled_from(self.questions))(data.draw, table, self.recall)
            for pruning, shortcuts in self.ways():
                self._ask(question, consistency, pruning=pruning, shortcuts=shortcuts)

    def _ask(self, question: Question, consistency: Consistency, *, pruning: bool, shortcuts: str) -> None:
        where = (
            f"{question.sql} {question.parameters or ''}; consistency {consistency}, pruning {pruning}, "
            f"shortcuts {shortcuts}"
        )
        try:
            answer = self.executor.run(
                question.sql,
                question.parameters,
                consistency=consistency,
                pruning=pruning,
                shortcuts=shortcuts,
            )
        except Exception as error:
            raise AssertionError(f"failed: {where}") from error
        question.judge(answer, where)

    def _searched(self, data: Any, subject: Subject, consistency: Consistency) -> Searched:
        rows = subject.model.table(flushed_only=consistency == "flushed")
        return Searched(
            subject.table.name,
            subject.table.key,
            subject.model.columns,
            self.shown(data, self._plain_shape(subject), rows),
            VECTOR.name,
            (TEXT.name, TITLE.name),
            self.tokenizers[subject.table.name],
            self.vector_indexes.get(subject.table.name),
        )

    # Pieces

    def _plain_shape(self, subject: Subject) -> queries.Table:
        """Without the columns that are searched."""
        searched = {VECTOR.name, TEXT.name, TITLE.name}
        columns = tuple(column for column in subject.model.columns if column.name not in searched)
        return queries.Table(subject.table.name, columns, subject.table.key)

    def _many(self, draw: Draw, subject: Subject) -> list[Row]:
        """Rows of keys that come up again and again."""
        seed, count = draw(st.integers(0, 999), label="seed"), draw(st.sampled_from(self.bulk))
        rows = []
        for number, values in enumerate(many(seed, count), start=100):
            cells = {
                column.name: None for column in subject.model.columns if column.name not in subject.table.key
            }
            keys = {"id": number, "tenant": ("north", "south")[number % 2]}
            types = {column.name: column.type for column in subject.model.columns}
            key = {
                name: f"k{keys[name]}" if types[name] == pa.string() and name == "id" else keys[name]
                for name in subject.table.key
            }
            cells |= {"n": (None, -1, 0, 1, 2, 7)[(number + seed) % 6], "s": ("a", "ab", "b")[number % 3]}
            row = key | cells | values
            for column in subject.model.columns:
                if column.field_id in subject.follows:
                    row[column.name] = subject.follows[column.field_id](key)
            rows.append(row)
        return rows

    def _rewrite(self, data: Any, change: Callable[[Row], Row]) -> None:
        """Write live rows again, changed."""
        subject = data.draw(st.sampled_from(self.subjects))
        live = sorted(subject.model.table().to_pylist(), key=repr)
        drawn = data.draw(st.lists(st.sampled_from(live), max_size=3)) if live else []
        self._put_anywhere(subject, [change(row) for row in drawn])
        self.check(data)

    def _put_anywhere(self, subject: Subject, rows: list[Row]) -> None:
        """Each row to its region, in writes that the writer takes."""
        parts: dict[str, list[Row]] = {}
        for row in rows:
            parts.setdefault(subject.table.region_of(row), []).append(row)
        most = subject.table.config["max_memtable_rows"]
        for region, part in parts.items():
            names = {column.name for column in known_to(self._writer(subject, region))}
            known = [{name: row.get(name) for name in names} for row in part]
            for begin in range(0, len(known), most):
                self._put(subject, region, known[begin : begin + most])

    def _index_texts(self, draw: Draw, subject: Subject) -> None:
        options = draw(st.sampled_from(text_answers.TOKENIZERS))
        for column in (TEXT.name, TITLE.name):
            subject.table.dataset().create_scalar_index(
                column, "INVERTED", name=f"{column}_index", replace=True, **options
            )
        self.tokenizers[subject.table.name] = options

    def _index_vectors(self, draw: Draw, subject: Subject) -> None:
        dataset: lance.LanceDataset = subject.table.dataset()
        if dataset.count_rows(f"{VECTOR.name} IS NOT NULL") < MIN_TRAINED:
            return
        kind = draw(st.sampled_from(sorted(INDEX_OPTIONS)))
        metric = draw(st.sampled_from(vector_answers.METRICS))
        dataset.create_index(
            VECTOR.name,
            kind,
            name="vec_index",
            metric=metric,
            num_partitions=draw(st.sampled_from((1, 2, 4))),
            replace=True,
            **INDEX_OPTIONS[kind],
        )
        self.vector_indexes[subject.table.name] = VectorIndex(kind, metric)
