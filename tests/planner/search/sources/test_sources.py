"""Which sources a search has: what an index covers, what none does, and what is fresh."""

from collections.abc import Callable, Hashable, Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.search.sources import index_coverage
from lance_gateway.planner.search.sources.index_coverage import (
    IndexKind,
    choose_index_metric,
    find_coverage,
    find_text_index,
)
from tests.planner.search.sources.divided import COLUMN_OF, Divided, labels, rows_in
from tests.planner.search.sources.replayed import DIMENSION, ReplayedTable, asking, axis
from tests.support.lake.tables import Row, unpartitioned
from tests.support.processes.writer_process import WriterProcess

VECTOR, TEXT = IndexKind.VECTOR, IndexKind.TEXT


def rows(*numbers: int) -> list[Row]:
    return [{"id": one, "vec": axis(one), "txt": f"word{one}", "n": one} for one in numbers]


@pytest.fixture
def table(root: Path, writers: WriterProcess) -> ReplayedTable:
    """Twenty rows, without an index."""
    return ReplayedTable(root, writers, rows(*range(20)), layout=unpartitioned(("id",), 1))


@pytest.fixture
def divided(root: Path, table: ReplayedTable) -> Iterator[Divided]:
    found = Divided(root, table.name)
    yield found
    found.close()


def append(table: ReplayedTable, *numbers: int) -> None:
    lance.write_dataset(
        pa.Table.from_pylist(rows(*numbers), schema=table.schema), table.table.path, mode="append"
    )


@pytest.mark.usefixtures("table")
def test_without_an_index_everything_is_looked_at(divided: Divided):
    assert labels(divided.sources(VECTOR)) == ["base v2 [0], flat"]


def test_an_index_covers_the_fragments_it_was_built_of(table: ReplayedTable, divided: Divided):
    table.index_vectors()
    append(table, 20, 21)
    append(table, 22)
    assert labels(divided.sources(VECTOR)) == ["base v5 [0], vec_index", "base v5 [1, 2], flat"]
    table.table.dataset().optimize.optimize_indices(num_indices_to_merge=0)
    assert labels(divided.sources(VECTOR)) == ["base v6 [0, 1, 2], vec_index"]


def test_fresh_rows_are_sources_of_their_own(table: ReplayedTable, divided: Divided):
    table.index_texts()
    table.put(*rows(1, 2, 3))
    table.flush()
    table.put(*rows(3, 4))
    found = divided.sources(TEXT)
    (region,) = table.table.regions.values()
    assert labels(found) == [
        "base v3 [0], txt_index",
        f"region {region[:8]} gen 1, flat",
        f"region {region[:8]} WAL 3..3, flat",
    ]
    assert [one.number for one in found] == [0, 1, 2]
    assert [one.region_id for one in found] == [None, region, region]
    assert [[one["id"] for one in rows_in(source)] for source in found[1:]] == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("kind", "limit", "few", "many"),
    [
        (VECTOR, "MIN_VECTOR_BYTES", 4 * 4 * DIMENSION, 3 * 4 * DIMENSION),
        (TEXT, "MAX_TOKENIZED_BYTES", 1 << 20, 0),
        (TEXT, "MAX_ALL_TOKENIZED_BYTES", 1 << 20, 0),
    ],
)
def test_large_generations_are_asked_by_their_own_index(
    table: ReplayedTable,
    divided: Divided,
    monkeypatch: pytest.MonkeyPatch,
    kind: IndexKind,
    limit: str,
    few: int,
    many: int,
):
    table.index_vectors()
    table.index_texts()
    table.put(*rows(1, 2, 3))
    table.flush()
    asked = []
    for value in (few, many):
        monkeypatch.setattr(index_coverage, limit, value)
        (_, generation) = divided.sources(kind)
        asked.append(generation.index is not None)
    assert asked == [False, True]


def test_rows_of_pruned_regions_are_left_out_and_still_supersede(root: Path, writers: WriterProcess):
    table = ReplayedTable(root, writers, rows(*range(20)), layout=unpartitioned(("id",), 2))
    table.put(*rows(*range(10)))
    divided = Divided(root, table.name)
    kept, pruned = sorted(table.table.regions.values())
    found = divided.sources(VECTOR, regions=[kept])
    assert pruned not in {one.region_id for one in found}
    assert [one["id"] for one in rows_in(found[0])] == list(range(10, 20))
    divided.close()


def test_a_column_that_a_generation_never_had_has_no_vectors_there(table: ReplayedTable, divided: Divided):
    table.put(*rows(1))
    table.flush()
    vectors = pa.field("vec2", pa.list_(pa.float32(), 4))
    table.table.dataset().add_columns(vectors)
    assert labels(divided.sources(VECTOR, column="vec2")) == ["base v3 [0], flat"]


def test_a_column_that_was_renamed_keeps_its_index(
    table: ReplayedTable, divided: Divided, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(index_coverage, "MAX_TOKENIZED_BYTES", 0)
    table.index_texts()
    table.put(*rows(1))
    table.flush()
    table.table.dataset().alter_columns({"path": "txt", "name": "body"})
    found = divided.sources(TEXT, column="body")
    assert [one.index is not None and one.index.name for one in found] == ["txt_index"] * 2


def test_of_several_indexes_the_one_of_the_metric_answers(table: ReplayedTable, divided: Divided):
    dataset = table.table.dataset()
    for metric in ("cosine", "l2"):
        dataset.create_index("vec", "IVF_FLAT", name=f"by_{metric}", metric=metric, num_partitions=1)
        dataset = table.table.dataset()
    base = divided.table.base()
    assert choose_index_metric(base, "vec") == "l2"
    names = {
        metric: found.index.name if (found := find_coverage(base, "vec", VECTOR, metric)).index else None
        for metric in (None, "l2", "cosine", "dot")
    }
    assert names == {None: "by_l2", "l2": "by_l2", "cosine": "by_cosine", "dot": None}


def test_of_several_indexes_the_one_that_covers_more_answers(table: ReplayedTable, divided: Divided):
    table.index_vectors()
    append(table, 20)
    table.table.dataset().create_index("vec", "IVF_FLAT", name="all_rows", metric="l2", num_partitions=1)
    found = find_coverage(divided.table.base(), "vec", VECTOR)
    assert found.index is not None
    assert (found.index.name, found.uncovered) == ("all_rows", ())


@pytest.mark.parametrize("column", ["vec", "txt"])
def test_a_column_that_was_rewritten_in_place_is_not_covered(
    root: Path,
    table: ReplayedTable,
    divided: Divided,
    open_engine: Callable[[Path], QueryEngine],
    column: str,
):
    table.index_vectors()
    table.index_texts()
    append(table, 20, 21)
    table.table.dataset().optimize.optimize_indices(num_indices_to_merge=0)
    table.rows |= {(one["id"],): one for one in rows(20, 21)}
    dataset = table.table.dataset()
    for key in range(20):
        table.rows[(key,)] |= (
            {"vec": axis(key + 1, 2.0)} if column == "vec" else {"txt": f"new{key % 3} word"}
        )
    changed = pa.Table.from_pylist([table.rows[(key,)] for key in range(20)], schema=table.schema)
    fragment, fields = dataset.get_fragment(0).update_columns(changed.select(["id", column]), "id", "id")
    update = lance.LanceOperation.Update(updated_fragments=[fragment], fields_modified=fields)
    lance.LanceDataset.commit(dataset.uri, update, read_version=dataset.version)
    covered = {kind: find_coverage(divided.table.base(), COLUMN_OF[kind], kind).covered for kind in IndexKind}
    assert covered == {VECTOR: (1,) if column == "vec" else (0, 1), TEXT: (1,) if column == "txt" else (0, 1)}
    ask = asking(open_engine(root))
    table.check_nearest(ask, axis(3, 1.9), 22, options="nprobes => 10")
    table.check_texts(ask, "word1 word new1 word20", 22)


def test_indexes_over_stable_row_ids_cover_their_rows(root: Path):
    path = root / "stable.lance"
    dataset = lance.write_dataset(
        pa.table(
            {"id": [1, 2, 3], "vec": pa.array([axis(one) for one in range(3)], pa.list_(pa.float32(), 8))}
        ),
        path,
        enable_stable_row_ids=True,
    )
    dataset.create_index("vec", "IVF_FLAT", name="vec_index", metric="cosine", num_partitions=1)
    divided = Divided(root, "stable")
    assert labels(divided.sources(VECTOR)) == ["base v2 [0], vec_index"]
    assert choose_index_metric(divided.table.base(), "vec") == "cosine"
    divided.close()


def test_a_commit_leaves_the_names_of_other_fragments_as_they_were(table: ReplayedTable, divided: Divided):
    append(table, 20, 21)
    (before,) = divided.sources(VECTOR)
    append(table, 22)
    table.table.dataset().delete("id = 20")
    (after,) = divided.sources(VECTOR)
    assert before.identity != after.identity
    same = [one for one in (0, 1) if before.fragment_identity(one) == after.fragment_identity(one)]
    assert same == [0]


def test_texts_of_fragments_that_were_appended_before_need_not_be_taken_apart_again(
    table: ReplayedTable, divided: Divided
):
    table.index_texts()
    taken_apart = []
    identities: set[Hashable] = set()
    for key in range(20, 36):
        append(table, key)
        (_, *flat) = divided.sources(TEXT)
        assert [one for source in flat for one in source.fragments] == list(range(1, key - 18))
        fresh = {one.identity: len(one.fragments) for one in flat if one.identity not in identities}
        identities |= fresh.keys()
        taken_apart.append(sum(fresh.values()))
    assert len(flat) == 1
    assert sum(taken_apart) == 16 + 8 + 2 * 4 + 4 * 2 + 8


def test_names_of_rows_change_when_columns_swap_their_names(table: ReplayedTable, divided: Divided):
    table.table.dataset().add_columns(pa.field("txt2", pa.string()))
    (before,) = divided.sources(TEXT)
    for old, new in (("txt", "txt3"), ("txt2", "txt"), ("txt3", "txt2")):
        table.table.dataset().alter_columns({"path": old, "name": new})
    (after,) = divided.sources(TEXT)
    assert before.identity != after.identity
    assert before.fragment_identity(0) != after.fragment_identity(0)


def test_what_is_known_of_a_version_is_found_out_once(table: ReplayedTable, divided: Divided):
    table.index_vectors()
    snapshot = divided.snapshot()
    first, second = (divided.sources(VECTOR, snapshot=snapshot) for _ in range(2))
    assert first[0].identity is second[0].identity
    assert first[0].fragment_identities is second[0].fragment_identities


def test_a_column_without_a_text_index_is_told_how_to_get_one(table: ReplayedTable, divided: Divided):
    table.index_texts()
    table.table.dataset().add_columns(pa.field("body", pa.string()))
    base = divided.table.base()
    assert find_text_index(base, "txt", base.schema.names).name == "txt_index"
    with pytest.raises(
        InvalidInputError, match=r"column 'body' .* no text index \(columns with one: 'txt'\)"
    ) as told:
        find_text_index(base, "body", base.schema.names)
    assert 'USING FTS ("body")' in str(told.value)
    with pytest.raises(InvalidInputError) as told:
        find_text_index(base, "body", ["body"])
    assert "'txt'" not in str(told.value)
