"""Rows that an index lacks come from merged generations: each once, and as the base table has them now."""

from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_gateway.execnodes.rows.row_mask import EVERYTHING_VISIBLE
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.search.sources import same_rows
from lance_gateway.planner.search.sources.catch_up import CatchUp, CatchUpMode
from lance_gateway.planner.search.sources.index_coverage import IndexKind, find_coverage
from tests.oracle.answers.vector_answers import literal
from tests.planner.search.sources.divided import COLUMN_OF, Divided, answering, rows_in
from tests.planner.search.sources.replayed import ReplayedTable, asking, axis
from tests.support.judging.results import assert_close_rows, rows_of
from tests.support.lake import merging
from tests.support.lake.tables import Row, key_field, unpartitioned
from tests.support.processes.writer_process import WriterProcess

KINDS = (IndexKind.VECTOR, IndexKind.TEXT)
Open = Callable[[Path], QueryEngine]


def row(number: int, place: float = 0.0, n: int = 0) -> Row:
    """A row whose vector and text say where it is."""
    return {"id": number, "vec": axis(number, 1.0 + place), "txt": f"word{number % 5} at {place:g}", "n": n}


def rows(numbers: range, place: float = 0.0) -> list[Row]:
    return [row(number, place) for number in numbers]


class Subject(ReplayedTable):
    """A table with two indexes, whose sources are looked at after every step."""

    def __init__(self, root: Path, writers: WriterProcess, regions: int = 1) -> None:
        super().__init__(root, writers, rows(range(40)), layout=unpartitioned(("id",), regions))
        self.index_vectors()
        self.index_texts()
        self.divided = Divided(root, self.name)

    def flush_rows(self, numbers: range, place: float) -> None:
        """One generation in each region that has one of the rows."""
        self.put(*rows(numbers, place))
        self.flush()

    def check(self, mode: CatchUpMode = CatchUpMode.ALWAYS) -> None:
        """Every row of the replay is in one source, as it is now, and nothing else is in any."""
        expected = sorted((one for one in self.rows.values()), key=lambda one: one["id"])
        for kind in KINDS:
            found = [one for source in self.divided.sources(kind, mode) for one in rows_in(source)]
            assert sorted(found, key=lambda one: one["id"]) == expected, kind

    def answering(
        self, kind: IndexKind = IndexKind.TEXT, mode: CatchUpMode = CatchUpMode.ALWAYS
    ) -> dict[int, int]:
        return answering(self.divided.sources(kind, mode))


@pytest.fixture
def subject(root: Path, writers: WriterProcess) -> Iterator[Subject]:
    subject = Subject(root, writers)
    yield subject
    subject.divided.close()
    subject.table.close_writers()


@pytest.mark.slow
def test_rows_of_a_merge_come_from_their_generation_until_the_index_has_them(subject: Subject):
    subject.flush_rows(range(30, 50), 1)
    subject.check()
    assert subject.answering() == {}  # not merged: it answers for itself
    subject.merge()
    subject.check()
    assert subject.answering() == {1: 20}
    assert subject.answering(IndexKind.VECTOR) == {1: 20}
    subject.catch_up()
    subject.check()
    assert subject.answering() == {}


def test_plans_name_the_generation_and_what_it_stands_in_for(subject: Subject, open_engine: Open, root: Path):
    subject.flush_rows(range(30, 50), 1)
    subject.merge()
    ask = asking(open_engine(root))
    for statement, index in (
        (subject.matching("word1", options="catch_up => 'always'"), "txt_index"),
        (subject.nearest(axis(1), 3, options="catch_up => 'always'"), "vec_index"),
    ):
        plan = "\n".join(ask(f"EXPLAIN {statement}")["plan"].to_pylist())
        assert f"gen 1 (catch-up for {index})" in plan, plan
        assert "base v" in plan, plan
    subject.catch_up()
    plan = "\n".join(ask(f"EXPLAIN {statement}")["plan"].to_pylist())
    assert "catch-up" not in plan, plan


def test_a_fragment_that_generations_explain_is_not_looked_at(subject: Subject):
    subject.flush_rows(range(30, 50), 1)
    subject.merge()
    for kind in KINDS:
        base = [one for one in subject.divided.sources(kind) if one.region_id is None]
        assert [one.index is not None for one in base] == [True]
        base = [one for one in subject.divided.sources(kind, CatchUpMode.NEVER) if one.region_id is None]
        assert [one.index is not None for one in base] == [True, False]


def test_each_index_has_its_own_gap(subject: Subject):
    subject.flush_rows(range(30, 50), 1)
    subject.merge()
    subject.table.dataset().optimize.optimize_indices(index_names=["txt_index"])
    subject.flush_rows(range(35, 60), 2)
    subject.merge()
    subject.check()
    assert subject.answering(IndexKind.TEXT) == {2: 25}
    assert subject.answering(IndexKind.VECTOR) == {1: 5, 2: 25}


@pytest.mark.slow
def test_several_generations_of_several_regions(root: Path, writers: WriterProcess):
    subject = Subject(root, writers, regions=3)
    subject.flush_rows(range(20, 60), 1)
    subject.flush_rows(range(30, 70), 2)
    subject.flush_rows(range(40, 80), 3)
    subject.check()
    subject.merge(up_to=2)
    subject.check()
    assert subject.answering() == {1: 10, 2: 10}  # the others are superseded by what is not merged
    subject.merge()
    subject.check()
    assert subject.answering() == {1: 10, 2: 10, 3: 40}
    region = next(iter(subject.table.regions.values()))
    merging.clean_up_merged(subject.table.path, region)
    subject.check()
    assert sum(subject.answering().values()) < 60
    subject.clean_up()
    subject.check()
    assert subject.answering() == {}
    subject.divided.close()


def test_fresh_rows_supersede_what_a_merged_generation_answers_for(subject: Subject):
    subject.flush_rows(range(30, 50), 1)
    subject.merge()
    subject.put(*rows(range(30, 35), 2))
    subject.delete({"id": 36})
    subject.check()
    assert subject.answering() == {1: 14}
    subject.flush()
    subject.check()
    assert subject.answering() == {1: 14}


def test_tombstones_of_a_merged_generation_answer_for_nothing(subject: Subject):
    subject.put(*rows(range(30, 50), 1))
    subject.delete({"id": 31}, {"id": 5})
    subject.flush()
    subject.merge()
    subject.check()
    assert subject.answering() == {1: 19}


@pytest.mark.slow
@pytest.mark.parametrize("column", ["n", "txt", "vec"])
def test_a_row_that_was_changed_in_the_base_table_since_is_read_there(subject: Subject, column: str):
    subject.flush_rows(range(30, 50), 1)
    subject.merge()
    new = {"n": 7, "txt": "changed", "vec": axis(0, 9.0)}[column]
    literal = {"n": "7", "txt": "'changed'", "vec": str(new)}[column]
    subject.table.dataset().update({column: literal}, where="id IN (33, 34)")
    for number in (33, 34):
        subject.rows[(number,)] |= {column: new}
    subject.check()
    assert subject.answering() == {1: 18}


@pytest.mark.slow
def test_rows_that_are_deleted_from_the_base_table_are_gone(subject: Subject):
    subject.flush_rows(range(30, 50), 1)
    subject.merge()
    subject.check()
    subject.table.dataset().delete("id BETWEEN 40 AND 44")
    for number in range(40, 45):
        del subject.rows[(number,)]
    subject.check()
    assert subject.answering() == {1: 15}


def test_rows_that_are_appended_to_the_base_table_have_no_generation(subject: Subject):
    subject.flush_rows(range(30, 50), 1)
    subject.merge()
    added = rows(range(100, 120))
    lance.write_dataset(pa.Table.from_pylist(added, schema=subject.schema), subject.table.path, mode="append")
    subject.rows |= {(one["id"],): one for one in added}
    subject.check()
    assert subject.answering() == {1: 20}


@pytest.mark.slow
def test_a_row_that_became_again_what_it_was_is_found_once(subject: Subject):
    subject.flush_rows(range(30, 50), 1)
    subject.flush_rows(range(30, 50), 2)
    subject.flush_rows(range(30, 50), 1)
    subject.merge()
    subject.check()
    assert subject.answering() == {3: 20}


@pytest.mark.slow
def test_compaction_forgets_what_indexes_cover(subject: Subject):
    subject.flush_rows(range(30, 50), 1)
    subject.merge()
    subject.flush_rows(range(45, 60), 2)
    subject.merge()
    subject.check()
    subject.table.dataset().optimize.compact_files()
    subject.check()
    assert subject.answering() == {1: 15, 2: 15}
    subject.catch_up()
    subject.check()
    assert subject.answering() == {}


@pytest.mark.slow
def test_an_index_that_is_built_anew_has_everything(subject: Subject):
    subject.flush_rows(range(30, 50), 1)
    subject.merge()
    subject.index_vectors()
    subject.check()
    assert subject.answering(IndexKind.VECTOR) == {}
    assert subject.answering(IndexKind.TEXT) == {1: 20}


@pytest.mark.slow
def test_a_generation_whose_texts_were_taken_apart_otherwise_is_not_asked(subject: Subject):
    subject.flush_rows(range(30, 50), 1)
    subject.table.dataset().create_scalar_index("txt", "INVERTED", name="txt_index", stem=False)
    subject.merge()
    subject.check()
    assert subject.answering(IndexKind.TEXT) == {}


def test_a_directory_that_was_removed_behind_the_manifest_is_not_asked(subject: Subject):
    subject.flush_rows(range(30, 50), 1)
    subject.merge()
    assert subject.answering() == {1: 20}
    (region,) = subject.table.regions.values()
    directory = subject.table.generation_directory(region, 1)
    directory.rename(directory.with_name("moved_away"))
    subject.check()
    assert subject.answering() == {}
    with_a_cold_cache = Divided(subject.table.path.parent, subject.name)
    assert answering(with_a_cold_cache.sources(IndexKind.TEXT)) == {}
    with_a_cold_cache.close()


def test_columns_that_were_added_since(subject: Subject):
    subject.flush_rows(range(30, 50), 1)
    subject.merge()
    subject.table.dataset().add_columns(pa.field("later", pa.int32()))
    for one in subject.rows.values():
        one["later"] = None
    subject.check()
    assert subject.answering() == {1: 20}
    subject.table.dataset().update({"later": "1"}, where="id = 30")
    subject.rows[(30,)]["later"] = 1
    subject.check()
    assert subject.answering() == {1: 19}


def test_rows_are_compared_by_keys_of_several_columns(root: Path, writers: WriterProcess):
    key = (key_field("tenant", pa.string(), 1), key_field("id", pa.int64(), 2))
    layout = unpartitioned(("tenant", "id"), 1)
    base = [{"tenant": tenant, **row(number)} for tenant in ("a", "ab") for number in range(20)]
    table = ReplayedTable(root, writers, base, key=key, layout=layout)
    table.index_texts()
    table.put(*({"tenant": "a", **row(number, 1)} for number in range(10, 15)))
    table.put(*({"tenant": "ab", **row(number, 2)} for number in range(12, 30)))
    table.flush()
    table.merge()
    divided = Divided(root, table.name)
    sources = divided.sources(IndexKind.TEXT)
    assert answering(sources) == {1: 23}
    found = {(one["tenant"], one["id"]): one for source in sources for one in rows_in(source)}
    assert found == table.rows
    divided.close()


def test_regions_that_are_pruned_do_not_answer(root: Path, writers: WriterProcess):
    subject = Subject(root, writers, regions=2)
    subject.flush_rows(range(30, 50), 1)
    subject.merge()
    first = next(iter(subject.table.regions.values()))
    found = subject.divided.sources(IndexKind.TEXT, regions=[first])
    assert {one.region_id for one in found} == {None, first}
    keys = [one["id"] for source in found for one in rows_in(source)]
    assert sorted(keys) == sorted(
        key for (key,) in subject.rows
    )  # the other's rows are still in the base table
    subject.divided.close()


@pytest.mark.slow
def test_searches_that_are_fused_find_a_row_in_the_same_source(subject: Subject):
    subject.flush_rows(range(30, 50), 1)
    subject.merge()
    subject.table.dataset().optimize.optimize_indices(index_names=["txt_index"])
    subject.flush_rows(range(35, 60), 2)
    subject.merge()
    snapshot = subject.divided.snapshot()
    covered = {kind: find_coverage(snapshot.base, COLUMN_OF[kind], kind) for kind in KINDS}
    places = []
    for kind, other in (KINDS, KINDS[::-1]):
        found = subject.divided.sources(kind, snapshot=snapshot, together_with=(covered[other],))
        places.append({one["id"]: id(source.rows) for source in found for one in rows_in(source)})
    assert places[0] == places[1]
    assert len(places[0]) == len(subject.rows)


@pytest.mark.slow
def test_fused_rankings_are_the_same_with_and_without(subject: Subject, open_engine: Open, root: Path):
    subject.flush_rows(range(30, 50), 1)
    subject.merge()
    subject.table.dataset().optimize.optimize_indices(index_names=["txt_index"])
    subject.flush_rows(range(35, 60), 2)
    subject.merge()
    subject.put(*rows(range(36, 39), 3))
    ask = asking(open_engine(root))

    def fused(mode: str) -> pa.Table:
        asked = f"'{subject.name}', 'vec', {literal(axis(1, 2.5))}, 'txt', 'word1 word2 at', k => 100"
        columns = "id, _hybrid_score, _distance, _score"
        exact = "nprobes => 100, ef => 1000, refine_factor => 100"
        return ask(
            f"SELECT {columns} FROM lance_hybrid_search({asked}, {exact}, catch_up => '{mode}') ORDER BY id"
        )

    never, always = fused("never"), fused("always")
    assert always.num_rows == len(subject.rows)
    assert_close_rows(rows_of(always), rows_of(never), "with and without catch-up")


def test_a_large_fragment_is_compared_piece_by_piece(subject: Subject, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(same_rows, "MAX_COMPARED_ROWS", 3)
    subject.flush_rows(range(30, 50), 1)
    subject.merge()
    subject.table.dataset().delete("id IN (30, 37, 38, 49)")
    subject.table.dataset().update({"n": "7"}, where="id = 41")
    for number in (30, 37, 38, 49):
        del subject.rows[(number,)]
    subject.rows[(41,)]["n"] = 7
    subject.check()
    assert subject.answering() == {1: 15}


def test_a_statement_that_was_stopped_compares_no_rows(subject: Subject):
    subject.flush_rows(range(30, 50), 1)
    subject.merge()
    divided = subject.divided

    def stop() -> None:
        raise CancelledError

    stopped = CatchUp(divided.table, divided.visibility, CatchUpMode.ALWAYS, stop)
    snapshot = divided.snapshot()
    needed = (find_coverage(snapshot.base, "txt", IndexKind.TEXT),)
    with pytest.raises(CancelledError):
        stopped.divide_rows(snapshot, frozenset(snapshot.regions), EVERYTHING_VISIBLE, needed)
    assert subject.answering() == {1: 20}
    known = stopped.divide_rows(snapshot, frozenset(snapshot.regions), EVERYTHING_VISIBLE, needed)
    assert [one.generation.generation for one in known.generations] == [1]


def test_few_rows_are_looked_at(subject: Subject):
    subject.flush_rows(range(30, 50), 1)
    subject.merge()
    subject.check(CatchUpMode.AUTO)
    assert subject.answering(mode=CatchUpMode.AUTO) == {}
    subject.check(CatchUpMode.NEVER)


@pytest.mark.slow
def test_answers_are_those_of_a_replay(subject: Subject, open_engine: Open, root: Path):
    ask = asking(open_engine(root))
    exact = "catch_up => 'always', refine_factor => 100, ef => 1000, nprobes => 100"

    def check() -> None:
        subject.check_nearest(ask, axis(33, 1.5), 12, options=exact)
        subject.check_texts(ask, "word3 at", 30, options="catch_up => 'always'")

    subject.flush_rows(range(30, 50), 1)
    check()
    subject.merge()
    check()
    subject.put(*rows(range(33, 36), 2))
    subject.delete({"id": 43})
    check()
    subject.flush()
    subject.merge()
    check()
    subject.table.dataset().delete("id = 38")
    del subject.rows[(38,)]
    check()
    subject.clean_up()
    check()
    subject.catch_up()
    check()
