"""Random histories of tables without a key, whose rows may be equal, against a bag of rows."""

import shutil
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import lance
import pyarrow as pa
import pytest
from hypothesis import Phase
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.oracle.replay.running import run_machine, soak
from tests.planner.writes.dml.lake import Lake

Row = tuple[int | None, str | None]
Flavour = Literal["addresses", "stable row ids", "log"]
SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])

numbers = st.none() | st.integers(0, 5)
texts = st.none() | st.sampled_from("abc")
rows = st.lists(st.tuples(numbers, texts), min_size=1, max_size=4)
several = st.booleans()


def table_of(given: list[Row]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in given], SCHEMA)


class HistoriesWithoutKey(RuleBasedStateMachine):
    """Two gateways write one table; an index of `n` and compaction come and go."""

    flavour: ClassVar[Flavour]

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="without-key-"))
        self.uri = str(self.root / "t.lance")
        self.lakes = [Lake(QueryEngine(Catalog.open(str(self.root)))) for _ in range(2)]
        self.bag: Counter[Row] = Counter()

    @initialize(given=rows)
    def create(self, given: list[Row]) -> None:
        if self.flavour == "log":
            self.lakes[0].write("CREATE TABLE t (n BIGINT, text TEXT) WITH (region_by = 'bucket(n, 2)')")
        else:
            is_stable = self.flavour == "stable row ids"
            lance.write_dataset(
                table_of(given), self.uri, max_rows_per_file=2, enable_stable_row_ids=is_stable
            )
            self.bag.update(given)

    def write(self, second: bool, sql: str, affected: int, *values: Any) -> None:
        assert self.lakes[second].write(sql, *values).affected == affected

    def replace(self, gone: Counter[Row], new: Counter[Row]) -> None:
        self.bag = self.bag - gone + new

    @rule(second=several, given=rows)
    def insert(self, second: bool, given: list[Row]) -> None:
        values = ", ".join(f"({', '.join(map(_literal, row))})" for row in given)
        self.write(second, f"INSERT INTO t VALUES {values}", len(given))
        self.bag.update(given)

    @rule(given=rows)
    def append_by_lance(self, given: list[Row]) -> None:
        lance.write_dataset(table_of(given), self.uri, mode="append")
        self.bag.update(given)

    @rule(second=several, number=st.integers(0, 5))
    def delete(self, second: bool, number: int) -> None:
        gone = Counter({row: count for row, count in self.bag.items() if row[0] == number})
        self.write(second, "DELETE FROM t WHERE n = $1", gone.total(), number)
        self.replace(gone, Counter())

    @rule(number=st.integers(0, 5))
    def delete_by_lance(self, number: int) -> None:
        """Of rows in the base table alone."""
        stored = lance.dataset(self.uri).to_table(filter=f"n = {number}").to_pylist()
        lance.dataset(self.uri).delete(f"n = {number}")
        self.replace(Counter((row["n"], row["text"]) for row in stored), Counter())

    @rule(second=several, text=st.sampled_from("abc"))
    def update(self, second: bool, text: str) -> None:
        """NULL plus 1 is NULL."""
        gone = Counter({row: count for row, count in self.bag.items() if row[1] == text})
        new: Counter[Row] = Counter()
        for (number, _), count in gone.items():
            new[None if number is None else (number + 1) % 6, text] += count
        self.write(second, "UPDATE t SET n = (n + 1) % 6 WHERE text = $1", gone.total(), text)
        self.replace(gone, new)

    @rule(second=several)
    def update_where_most_are(self, second: bool) -> None:
        most = max((row[0] for row in self.bag if row[0] is not None), default=None)
        gone = Counter({row: count for row, count in self.bag.items() if most is not None and row[0] == most})
        self.write(second, "UPDATE t SET text = 'c' WHERE n = (SELECT max(n) FROM t)", gone.total())
        self.replace(gone, Counter({(most, "c"): gone.total()} if gone else {}))

    @rule(second=several, number=st.integers(0, 5))
    def merge(self, second: bool, number: int) -> None:
        """Rows of the number with text 'a' go, others of it get 'b'; without any there is one afterwards."""
        matched = Counter({row: count for row, count in self.bag.items() if row[0] == number})
        kept = sum(count for row, count in matched.items() if row[1] != "a")
        new: Counter[Row] = Counter({(number, "b"): kept} if matched else {(number, "new"): 1})
        self.write(
            second,
            "MERGE INTO t USING (SELECT $1 AS x) s ON t.n = s.x WHEN MATCHED AND t.text = 'a' THEN DELETE "
            "WHEN MATCHED THEN UPDATE SET text = 'b' WHEN NOT MATCHED THEN INSERT VALUES (s.x, 'new')",
            matched.total() or 1,
            number,
        )
        self.replace(matched, +new)

    @rule(second=several)
    def truncate(self, second: bool) -> None:
        self.write(second, "TRUNCATE t", self.bag.total())
        self.bag.clear()

    @rule(second=several)
    def keep_up(self, second: bool) -> None:
        indexed = {index.name for index in lance.dataset(self.uri).describe_indices()}
        if "n_idx" not in indexed and lance.dataset(self.uri).count_rows():
            lance.dataset(self.uri).create_scalar_index("n", "BTREE")
        self.lakes[second].write("OPTIMIZE t")

    @invariant()
    def everybody_reads_the_same(self) -> None:
        for lake in self.lakes if (self.root / "t.lance").exists() else ():
            found = lake.read("SELECT n, text FROM t")
            assert Counter((row["n"], row["text"]) for row in found) == self.bag
            by_index = lake.read("SELECT count(*) AS c FROM t WHERE n = 3")
            assert by_index == [{"c": sum(count for row, count in self.bag.items() if row[0] == 3)}]
        if self.flavour != "log" and self.bag:
            stored = lance.dataset(self.uri).to_table().to_pylist()
            assert Counter((row["n"], row["text"]) for row in stored) == self.bag

    def teardown(self) -> None:
        for lake in self.lakes:
            lake.engine.close()
        shutil.rmtree(self.root, ignore_errors=True)  # Writers that lost a region may still close.


def _literal(value: object) -> str:
    return "NULL" if value is None else repr(value)


def run_histories(kind: Flavour, examples: int, steps: int, **more: Any) -> None:
    class Run(HistoriesWithoutKey):
        flavour = kind

    more.setdefault("phases", (Phase.explicit, Phase.generate))
    run_machine(Run, examples=examples, steps=steps, **more)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["addresses", "stable row ids", "log"])
def test_short_histories_without_a_key_equal_the_replay(kind: Flavour) -> None:
    run_histories(kind, examples=3 if kind == "log" else 6, steps=10, derandomize=True)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("kind", ["addresses", "stable row ids", "log"])
def test_long_histories_without_a_key_equal_the_replay(kind: Flavour) -> None:
    soak(partial(run_histories, kind, phases=tuple(Phase)), histories=100, steps=40)
