"""Sets of keys, and the rows that lookups find for them."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_gateway.execnodes import (
    BloomFilterGuardExec,
    CoalesceFirstExec,
    ExecNode,
    KeySet,
    MetricsSet,
    TakeLastExec,
    TaskContext,
)
from lance_gateway.execnodes.rows.keys import list_key_tuples
from lance_gateway.memwal.bloom import build_key_filter

KEY = pa.schema([("a", pa.int64()), ("b", pa.string())])
Pairs = set[tuple[int, str]]
pairs = st.sets(st.tuples(st.integers(0, 3), st.sampled_from("xyz")), max_size=6)


def key_set(*keys: tuple[object, ...], schema: pa.Schema = KEY) -> KeySet:
    return KeySet(pa.Table.from_pylist([dict(zip(schema.names, key, strict=True)) for key in keys], schema))


def single(*keys: int) -> KeySet:
    return key_set(*((key,) for key in keys), schema=pa.schema([("a", pa.int64())]))


@dataclass(frozen=True, eq=False)
class Rows(ExecNode):
    """Batches as they are given, of one partition; by key where the context has keys."""

    given: tuple[pa.RecordBatch, ...]
    partition: int = 0

    @property
    def schema(self) -> pa.Schema:
        return self.given[0].schema

    def children(self) -> tuple[ExecNode, ...]:
        return ()

    def describe(self) -> str:
        return "Rows"

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        for batch in self.given if partition == self.partition else ():
            yield batch if context.keys is None else context.keys.select(batch)


def batch(*rows: tuple[object, ...], names: tuple[str, ...] = ("a", "v")) -> pa.RecordBatch:
    types = {"a": pa.int64(), "v": pa.string(), "_tombstone": pa.bool_(), "b": pa.string()}
    schema = pa.schema([(name, types[name]) for name in names])
    return pa.RecordBatch.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema)


def run(node: ExecNode, keys: KeySet | None = None, partition: int = 0) -> list[tuple[object, ...]]:
    found = node.execute(partition, TaskContext(keys=keys))
    return [tuple(row.values()) for rows in found for row in rows.to_pylist()]


class TestKeySet:
    @pytest.mark.slow
    @given(pairs, pairs)
    def test_it_selects_its_keys(self, wanted: Pairs, stored: Pairs) -> None:
        rows = pa.RecordBatch.from_pylist(
            [{"b": b, "n": 1, "a": a} for a, b in stored],
            pa.schema([("b", pa.string()), ("n", pa.int8()), ("a", pa.int64())]),
        )
        assert set(list_key_tuples(key_set(*wanted).select(rows), ("a", "b"))) == wanted & stored

    @given(st.sets(st.integers(0, 9), max_size=5), st.lists(st.integers(0, 9), max_size=9))
    def test_of_one_column_it_selects_every_row_of_a_key(self, wanted: set[int], stored: list[int]) -> None:
        selected = single(*wanted).select(batch(*((key, "") for key in stored)))
        assert selected.column("a").to_pylist() == [key for key in stored if key in wanted]

    def test_it_selects_keys_from_several_chunks(self) -> None:
        wanted = KeySet(pa.concat_tables([single(1).table, single(2).table]))
        assert wanted.select(batch((1, ""), (2, ""), (3, ""))).column("a").to_pylist() == [1, 2]

    @pytest.mark.slow
    @given(pairs, pairs)
    def test_what_was_found_is_taken_from_it(self, wanted: Pairs, found: Pairs) -> None:
        left = key_set(*wanted).without(found)
        assert set(left.rows) == wanted - found
        assert len(left) == len(wanted - found)
        assert left.table.schema == KEY

    def test_a_filter_of_lance_passes_every_wanted_row(self, tmp_path: Path) -> None:
        stored = set(product(range(4), "xyz"))
        rows = pa.table({"s_a": [a for a, _ in stored], "b": [b for _, b in stored]})
        dataset = lance.write_dataset(rows, str(tmp_path / "t.lance"))
        for wanted in ([(1, "x")], [(1, "x"), (2, "y")], [(1, "x"), (1, "y"), (3, "x")]):
            text = key_set(*wanted).filter({"a": "s_a", "b": "b"})
            found = set(list_key_tuples(dataset.to_table(filter=text), ("s_a", "b")))
            assert found == set(product({a for a, _ in wanted}, {b for _, b in wanted}))

    def test_where_lance_has_no_literal_there_is_no_filter(self) -> None:
        times = pa.schema([("a", pa.int64()), ("t", pa.time64("us"))])
        assert KeySet(pa.table({"a": [1], "t": [1]}, schema=times)).filter({"a": "a", "t": "t"}) is None
        assert single(1).filter({"a": "a`b"}) is None

    def test_a_key_has_columns(self) -> None:
        with pytest.raises(ValueError, match="at least one key column"):
            KeySet(pa.table({}))

    def test_filters_are_asked_for_keys_in_their_types(self) -> None:
        (lookup,) = key_set((1, "x")).lookup_keys
        assert (lookup.values, lookup.types) == ((1, "x"), (pa.int64(), pa.string()))


class TestCoalesceFirst:
    def test_no_keys_are_not_looked_for(self) -> None:
        assert run(CoalesceFirstExec((Rows((batch((1, "x")),)),), single(), ("a",))) == []

    @pytest.mark.parametrize(
        "names", [("_tombstone", "a", "v"), ("a", "_tombstone", "v"), ("a", "v", "_tombstone")]
    )
    def test_a_tombstone_is_known_wherever_its_column_is(self, names: tuple[str, ...]) -> None:
        rows = [{"a": 1, "v": "x", "_tombstone": True}, {"a": 2, "v": "y", "_tombstone": False}]
        node = Rows((batch(*(tuple(row[name] for name in names) for row in rows), names=names),))
        assert run(CoalesceFirstExec((node,), single(1, 2), ("v", "a"))) == [("y", 2)]

    def test_it_looks_for_what_is_wanted_and_for_nothing_else(self) -> None:
        newest, oldest = Rows((batch((1, "new"), (5, "other")),)), Rows((batch((1, "old"), (2, "z")),))
        assert run(CoalesceFirstExec((newest, oldest), single(1, 2), ("v",))) == [("new",), ("z",)]

    def test_sources_without_the_keys_are_passed_over(self) -> None:
        nothing = Rows((batch(),))
        sources = (nothing, Rows((batch((1, "x")),)), nothing, Rows((batch((2, "y")),)))
        assert run(CoalesceFirstExec(sources, single(1, 2), ("v",))) == [("x",), ("y",)]

    def test_batches_of_one_source_are_looked_at_together(self) -> None:
        source = Rows((batch((1, "x")), batch((2, "y"))))
        older = Rows((batch((1, "old"), (2, "old"), (3, "z")),))
        assert run(CoalesceFirstExec((source, older), single(1, 2, 3), ("v",))) == [("x",), ("y",), ("z",)]

    def test_only_the_first_partition_is_asked(self) -> None:
        assert run(CoalesceFirstExec((Rows((batch((1, "x")),), 1),), single(1), ("v",)), partition=1) == []

    def test_its_columns_are_of_the_inputs(self) -> None:
        node = CoalesceFirstExec((Rows((batch((1, "x")),)),), single(1), ("v",))
        assert node.schema == pa.schema([("v", pa.string())])
        with pytest.raises(ValueError, match="at least one input"):
            CoalesceFirstExec((), single(1), ("v",))


class TestTakeLast:
    @pytest.mark.slow
    @given(st.lists(st.lists(st.integers(0, 3), max_size=4), min_size=1, max_size=4))
    def test_the_last_row_of_each_key_stays_in_its_place(self, keys: list[list[int]]) -> None:
        written = [key for some in keys for key in some]
        numbers = iter(range(len(written)))
        source = Rows(tuple(batch(*((key, str(next(numbers))) for key in some)) for some in keys))
        last = {key: (key, str(at)) for at, key in enumerate(written)}
        assert run(TakeLastExec(source, ("a",))) == sorted(last.values(), key=lambda row: int(row[1]))

    def test_composite_keys_differ_in_any_column(self) -> None:
        source = Rows((batch((1, "x"), (1, "y"), (2, "x"), (1, "x")),))
        assert run(TakeLastExec(source, ("a", "v"))) == [(1, "y"), (2, "x"), (1, "x")]
        assert run(TakeLastExec(source, ("a",))) == [(2, "x"), (1, "x")]

    def test_nothing_has_no_last_row(self) -> None:
        source = Rows((batch((1, "x")),))
        assert list(TakeLastExec(source, ("a",)).execute(1, TaskContext())) == []

    @pytest.mark.parametrize("columns", [(), ("b",), ("a", "b")])
    def test_it_needs_its_key_columns(self, columns: tuple[str, ...]) -> None:
        with pytest.raises(ValueError, match=r"key columns .* in its input \['a', 'v'\]"):
            TakeLastExec(Rows((batch((1, "x")),)), columns)


class TestKeyFilters:
    rows = Rows((batch((1, "x"), (2, "y")),), partition=1)
    guard = BloomFilterGuardExec(rows, build_key_filter(pa.table({"a": [1, 2]})))

    @pytest.mark.parametrize("metrics", [None, MetricsSet()], ids=["unmeasured", "measured"])
    @pytest.mark.parametrize(
        ("keys", "found"),
        [
            (None, [(1, "x"), (2, "y")]),
            (single(2), [(2, "y")]),
            (single(77, 1), [(1, "x")]),
            (single(77, 78), []),
        ],
        ids=["every", "possible", "one possible", "impossible"],
    )
    def test_a_source_is_asked_for_keys_that_it_may_have(
        self, keys: KeySet | None, found: list[tuple[object, ...]], metrics: MetricsSet | None
    ) -> None:
        batches = list(self.guard.execute(1, TaskContext(keys=keys, metrics=metrics)))
        assert [tuple(row.values()) for one in batches for row in one.to_pylist()] == found
        assert run(self.guard, keys) == []

    @pytest.mark.parametrize("metrics", [None, MetricsSet()], ids=["unmeasured", "measured"])
    def test_a_source_without_the_keys_is_not_read(self, metrics: MetricsSet | None) -> None:
        source = Rows((batch((77, "of no filter")),))
        guard = BloomFilterGuardExec(source, self.guard.key_filter)
        assert list(guard.execute(0, TaskContext(keys=single(77), metrics=metrics))) == []
        assert run(guard) == [(77, "of no filter")]
