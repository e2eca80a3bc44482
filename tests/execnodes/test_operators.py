"""Operators over batches that are in memory, and over one small Lance dataset."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_gateway.execnodes import (
    BloomFilterGuardExec,
    CoalesceFirstExec,
    DeduplicateExec,
    ExecNode,
    KeySet,
    LanceScanExec,
    LanceSource,
    MemTableScanExec,
    MemTableSource,
    MetricsSet,
    RowMask,
    StoredColumn,
    TakeLastExec,
    TaskContext,
    UnionExec,
)
from lance_gateway.execnodes.node import coalesce_batches, rows_without_columns
from lance_gateway.execnodes.rows.row_mask import build_fragment_mask
from lance_gateway.execnodes.storage.source import ColumnMapping
from lance_gateway.memwal.bloom import build_key_filter
from lance_gateway.planner.tables.sources.decoded_columns import DecodedColumns

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])


def stored_as(schema: pa.Schema) -> ColumnMapping:
    """Columns stored as the table has them."""
    return ColumnMapping({field.name: StoredColumn(field.name, field.type) for field in schema})


def rows(*pairs: tuple[int, str | None], dead: tuple[int, ...] = ()) -> pa.Table:
    """Rows of a MemTable; `dead` gives the positions of tombstones."""
    return pa.table(
        {
            "id": pa.array([key for key, _ in pairs], pa.int64()),
            "v": pa.array([value for _, value in pairs], pa.string()),
            "_tombstone": pa.array([position in dead for position in range(len(pairs))]),
        }
    )


def memtable(table: pa.Table, **options: bool) -> MemTableScanExec:
    return MemTableScanExec(MemTableSource("rows", table), ("id", "v"), **options)


def lookup(table: pa.Table) -> TakeLastExec:
    return TakeLastExec(memtable(table, with_tombstone=True, by_key=True), ("id",))


def keys(*values: int) -> KeySet:
    return KeySet(pa.table({"id": pa.array(values, pa.int64())}))


def run(node: ExecNode, context: TaskContext | None = None, partitions: int = 1) -> list[tuple[object, ...]]:
    """All rows of all partitions, in the order in which they come."""
    batches = [b for p in range(partitions) for b in node.execute(p, context or TaskContext())]
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


@dataclass(frozen=True)
class AtLeast:
    """A row filter: v >= bound."""

    bound: str
    columns: frozenset[str] = frozenset({"v"})

    def sql(self, names: dict[str, str]) -> str | None:
        return f"{names['v']} >= '{self.bound}'"

    def matches(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        return pa.array(
            [value is not None and value >= self.bound for value in batch.column("v").to_pylist()]
        )


@pytest.fixture
def source(tmp_path: Path) -> LanceSource:
    table = pa.table({"id": range(10), "v": [f"v{i}" for i in range(10)]})
    dataset = lance.write_dataset(table, str(tmp_path / "t.lance"), max_rows_per_file=4)
    return LanceSource("t", dataset, SCHEMA, stored_as(SCHEMA))


def groups(source: LanceSource, partitions: int) -> tuple[tuple[int, ...], ...]:
    ids = [fragment.fragment_id for fragment in source.dataset.get_fragments()]  # type: ignore[attr-defined]
    return tuple(tuple(ids[partition::partitions]) for partition in range(partitions))


def scan_of(
    source: LanceSource,
    columns: tuple[str, ...],
    fragment_groups: tuple[tuple[int, ...], ...] | None = None,
    **options: Any,
) -> LanceScanExec:
    return LanceScanExec(
        source, columns, fragment_groups or groups(source, 1), DecodedColumns(1 << 20), **options
    )


@pytest.fixture(params=[False, True], ids=["scanned", "kept"])
def kept(request: pytest.FixtureRequest) -> bool:
    """Whether columns are read through the cache."""
    return bool(request.param)


class TestLanceScan:
    def test_partitions_together_read_every_row_once(self, source: LanceSource) -> None:
        scan = scan_of(source, ("id",), groups(source, 2))
        assert sorted(run(scan, partitions=2)) == [(i,) for i in range(10)]

    def test_a_filter_reads_columns_that_are_not_produced(self, source: LanceSource, kept: bool) -> None:
        scan = scan_of(source, ("id",), row_filter=AtLeast("v7"), keep_columns=kept)
        assert run(scan) == [(7,), (8,), (9,)]

    def test_no_columns_count_rows_from_metadata(self, source: LanceSource) -> None:
        scan = scan_of(source, ())
        assert [batch.num_rows for batch in scan.execute(0, TaskContext())] == [10]

    def test_a_column_that_was_renamed_or_never_stored_reads_as_the_table_has_it(
        self, source: LanceSource, kept: bool
    ) -> None:
        table = pa.schema([("id", pa.int64()), ("title", pa.string()), ("price", pa.float64())])
        evolved = LanceSource(
            "t",
            source.dataset,
            table,
            ColumnMapping({"id": StoredColumn("id", pa.int64()), "title": StoredColumn("v", pa.string())}),
        )
        scan = scan_of(evolved, ("price", "title"), keep_columns=kept)
        assert run(scan)[:2] == [(None, "v0"), (None, "v1")]

    def test_wanted_keys_are_all_that_is_read(self, source: LanceSource, kept: bool) -> None:
        scan = scan_of(source, ("v", "id"), by_key=True, keep_columns=kept)
        assert run(scan, TaskContext(keys=keys(3, 99, 8))) == [("v3", 3), ("v8", 8)]

    def test_a_scan_that_finds_nothing_can_be_stopped_on_its_way(
        self, source: LanceSource, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("lance_gateway.execnodes.scans.RUN_ROWS", 1)
        looks = iter(range(100))

        def check() -> None:
            if next(looks) == 1:
                raise TimeoutError

        scan = scan_of(source, ("id",), row_filter=AtLeast("z"))
        assert run(scan) == []
        with pytest.raises(TimeoutError):
            run(scan, TaskContext(check=check))

    def test_an_unknown_column_is_refused_by_name(self, source: LanceSource) -> None:
        with pytest.raises(ValueError, match="t has no column 'w'; it has id, v"):
            scan_of(source, ("w",))


class TestDeduplicate:
    def test_a_masked_row_is_gone_whatever_the_filter_says(self, source: LanceSource, kept: bool) -> None:
        scan = scan_of(source, ("id",), row_filter=AtLeast("v7"), keep_columns=kept)
        third = sorted(fragment.fragment_id for fragment in source.dataset.get_fragments())[2]  # type: ignore[attr-defined]
        mask = RowMask({third: build_fragment_mask(2, np.array([0], dtype=np.uint32))})
        node = DeduplicateExec(UnionExec((scan,)), (mask,))
        assert run(node) == [(7,), (9,)]

    def test_counting_reads_nothing_but_metadata(self, source: LanceSource) -> None:
        scan = scan_of(source, ())
        first = min(fragment.fragment_id for fragment in source.dataset.get_fragments())  # type: ignore[attr-defined]
        mask = RowMask({first: build_fragment_mask(4, np.array([1, 3, 3], dtype=np.uint32))})
        metrics = MetricsSet()
        node = DeduplicateExec(UnionExec((scan,)), (mask,))
        assert sum(b.num_rows for b in node.execute(0, TaskContext(metrics=metrics))) == 8
        assert metrics.of(scan).output_batches == 1  # type: ignore[union-attr]

    def test_rows_that_lance_deleted_are_not_subtracted_twice(self, source: LanceSource) -> None:
        source.dataset.delete("id = 1")  # type: ignore[attr-defined]
        scan = scan_of(source, ())
        first = min(fragment.fragment_id for fragment in source.dataset.get_fragments())  # type: ignore[attr-defined]
        mask = RowMask({first: build_fragment_mask(4, np.array([1, 3], dtype=np.uint32))})
        node = DeduplicateExec(UnionExec((scan,)), (mask,))
        assert sum(b.num_rows for b in node.execute(0, TaskContext())) == 8

    def test_sources_and_masks_must_pair_up(self, source: LanceSource) -> None:
        scan = scan_of(source, ("id",))
        with pytest.raises(ValueError, match="1 sources need as many masks, not 0"):
            DeduplicateExec(UnionExec((scan,)), ())

    def test_only_the_rows_of_scans_have_a_place(self) -> None:
        union = UnionExec((memtable(rows((1, "a"))),))
        with pytest.raises(TypeError, match="masks the rows of scans, and this is none: UnionExec"):
            DeduplicateExec(UnionExec((union,)), (RowMask({}),))


class TestLookup:
    def test_the_last_row_of_a_key_within_a_source_wins(self) -> None:
        node = lookup(rows((1, "old"), (2, "b"), (1, "new")))
        assert run(node, TaskContext(keys=keys(1, 2))) == [(2, "b", False), (1, "new", False)]

    def test_the_newest_source_that_knows_a_key_answers_for_it(self) -> None:
        newest, oldest = lookup(rows((1, "new"))), lookup(rows((1, "old"), (2, "only here")))
        node = CoalesceFirstExec((newest, oldest), keys(1, 2, 3), ("v",))
        assert run(node) == [("new",), ("only here",)]

    def test_a_tombstone_is_a_hit_and_yields_no_row(self) -> None:
        deleted, base = lookup(rows((1, None), dead=(0,))), lookup(rows((1, "old")))
        metrics = MetricsSet()
        node = CoalesceFirstExec((deleted, base), keys(1), ("v",))
        assert run(node, TaskContext(metrics=metrics)) == []
        assert metrics.of(base) is None

    def test_a_filter_applies_to_the_newest_version_only(self) -> None:
        newest, oldest = lookup(rows((1, "a"))), lookup(rows((1, "z")))
        node = CoalesceFirstExec((newest, oldest), keys(1), ("v",), AtLeast("m"))
        assert run(node) == []

    def test_only_the_first_partition_has_rows(self) -> None:
        node = CoalesceFirstExec((lookup(rows((1, "a"))),), keys(1), ("v",))
        assert list(node.execute(1, TaskContext())) == []

    def test_composite_keys_are_compared_as_a_whole(self) -> None:
        table = pa.table({"a": [1, 1, 2], "b": ["x", "y", "x"], "_tombstone": [False] * 3})
        wanted = KeySet(pa.table({"a": [1, 2], "b": ["y", "x"]}))
        scan = MemTableScanExec(MemTableSource("rows", table), ("a", "b"), by_key=True)
        assert run(scan, TaskContext(keys=wanted)) == [(1, "y"), (2, "x")]

    def test_a_key_filter_is_asked_before_its_source(self) -> None:
        scan = lookup(rows((1, "a")))
        metrics = MetricsSet()
        guard = BloomFilterGuardExec(scan, build_key_filter(pa.table({"id": [1]})))
        assert run(guard, TaskContext(keys=keys(77), metrics=metrics)) == []
        assert metrics.of(scan) is None
        assert metrics.of(guard).counters == {"keys_ruled_out": 1}  # type: ignore[union-attr]

    def test_keys_have_no_nulls(self) -> None:
        with pytest.raises(ValueError, match="a primary key has no NULLs"):
            KeySet(pa.table({"id": pa.array([1, None])}))


class TestUnion:
    def test_inputs_must_agree_on_columns(self) -> None:
        one = memtable(rows((1, "a")))
        other = MemTableScanExec(MemTableSource("rows", rows((1, "a"))), ("v",))
        with pytest.raises(ValueError, match="UnionExec inputs differ"):
            UnionExec((one, other))

    def test_no_input_is_no_union(self) -> None:
        with pytest.raises(ValueError, match="at least one input"):
            UnionExec(())

    def test_tails_belong_to_the_first_partition(self) -> None:
        node = UnionExec((memtable(rows((1, "a"))), memtable(rows((2, "b")))))
        assert run(node, partitions=3) == [(1, "a"), (2, "b")]


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([3], [3], id="one small batch"),
        pytest.param([3, 4, 1], [8], id="small batches become one"),
        pytest.param([5, 5, 5], [5, 5, 5], id="half the target passes as it is"),
        pytest.param([4, 4, 4, 4], [12, 4], id="the target is reached by spanning batches"),
        pytest.param([4, 9, 4], [9, 8], id="a large batch overtakes"),
        pytest.param([0, 0], [], id="empty batches vanish"),
    ],
)
def test_batches_are_coalesced(sizes: list[int], expected: list[int]) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        for size in sizes:
            yield pa.record_batch({"a": pa.array(range(size), pa.int64())})

    assert [batch.num_rows for batch in coalesce_batches(batches(), target_rows=10)] == expected


def test_rows_without_columns_are_added_up() -> None:
    batches = iter([rows_without_columns(5), rows_without_columns(1_000_000), rows_without_columns(7)])
    assert [batch.num_rows for batch in coalesce_batches(batches)] == [1_000_012]


def test_a_mask_spans_fragments() -> None:
    mask = RowMask(
        {
            0: build_fragment_mask(3, np.array([2], np.uint32)),
            7: build_fragment_mask(2, np.array([0], np.uint32)),
        }
    )
    addresses = pa.array([0, 2, 5 << 32, (7 << 32) | 0, (7 << 32) | 1], pa.uint64())
    batch = pa.record_batch({"x": list("abcde")})
    assert mask.keep(batch, addresses).column(0).to_pylist() == ["a", "c", "e"]
    assert mask.hidden_rows == 2
