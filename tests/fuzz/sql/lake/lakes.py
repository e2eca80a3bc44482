"""Random lakes: tables whose rows lie in base tables, generations and logs, and what each must hold."""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.pipeline.merging import MergePolicy, merge
from tests.fuzz.sql.grammar.blocks import is_beyond_datafusion
from tests.fuzz.sql.grammar.kinds import Family
from tests.fuzz.sql.grammar.queries import Queries
from tests.fuzz.sql.grammar.sources import Shape
from tests.fuzz.sql.grammar.tree import AbstainError, Node, Reader, render
from tests.fuzz.sql.lake.tables import Key, TableSpec
from tests.support.lake.hand_made import commit_fragments, create_base_path, make_table, write_fragment
from tests.support.lake.tables import LsmTable, Row
from tests.support.processes.writer_process import WriterProcess

MAX_ROWS = 60


@dataclass
class HeldTable:
    """A table on disk, and the rows that it must hold.

    Attributes:
        lsm: Its regions and their writers; None where it has no MemWAL.
        rows: The newest row of each key; numbered where there is no key.
    """

    spec: TableSpec
    path: Path
    lsm: LsmTable | None
    rows: dict[Key, Row] = field(default_factory=dict)

    def put(self, rows: Sequence[Row]) -> None:
        """Upsert through Lance's writers, or append where there is no MemWAL."""
        if not rows:
            return
        # Within one batch, which of two rows of a key is the newer one is the writer's affair.
        rows = list({self._identity(row, number): row for number, row in enumerate(rows)}.values())
        if self.lsm is None:
            lance.write_dataset(pa.Table.from_pylist(list(rows), self.spec.schema), self.path, mode="append")
        else:
            most = self.lsm.config["max_memtable_rows"]
            for begin in range(0, len(rows), most):
                self.lsm.put(rows[begin : begin + most])
        self.take(rows)

    def delete(self, keys: Sequence[Key]) -> None:
        """Delete keys through Lance's writers."""
        if self.lsm is not None and keys and self.spec.key:
            for key in keys:
                self.lsm.delete([dict(zip(self.spec.key, key, strict=True))])
                self.rows.pop(key, None)

    def take(self, rows: Iterable[Row]) -> None:
        """Remember what was written."""
        for row in rows:
            self.rows[self._identity(row, len(self.rows))] = row

    def flush(self) -> None:
        """What Lance's writers hold becomes generations."""
        if self.lsm is not None:
            self.lsm.close_writers()

    def let_go(self, *, flush: bool) -> None:
        """Close Lance's writers, or have them crash, before others claim their regions."""
        if self.lsm is not None:
            if not flush:
                for writer in self.lsm.writers.values():
                    if not writer.closed:
                        writer.abandon()
            self.lsm.close_writers()

    def merge(self) -> None:
        """Generations into the base table."""
        if self.lsm is not None:
            merge(LakeTable.at(str(self.path)), MergePolicy())

    def table(self) -> pa.Table:
        """What it must hold."""
        schema = pa.schema([one.remove_metadata() for one in self.spec.schema])
        return pa.Table.from_pylist(list(self.rows.values()), schema)

    def _identity(self, row: Mapping[str, Any], number: int) -> Key:
        return self.spec.key_of(row) if self.spec.key else (number,)


@dataclass
class Lake:
    """Tables and views under one root.

    Attributes:
        views: Their texts for DataFusion and DuckDB.
    """

    root: Path
    tables: dict[str, HeldTable] = field(default_factory=dict)
    views: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    shapes: list[Shape] = field(default_factory=list)

    @staticmethod
    def draw(rng: random.Random, root: Path, process: WriterProcess, *, tables: int = 4) -> "Lake":
        """Write a random lake."""
        lake = Lake(root)
        for number in range(tables):
            name = "Filter" if rng.random() < 0.05 else f"t{number}"
            if name in lake.tables:
                continue
            lake.tables[name] = held = _written(rng, root, TableSpec.draw(rng, name), process)
            lake.shapes.append(held.spec.shape)
        for number in range(rng.choice((0, 1, 2))):
            lake._add_view(rng, f"v{number}")
        return lake

    def live(self, rng: random.Random) -> HeldTable:
        """Let something happen to one of the tables that Lance's writers write; returns it."""
        held = rng.choice(list(self.tables.values()))
        _happen(rng, held, rng.choice(_EVENTS))
        return held

    def close(self) -> None:
        """Forget the writers without flushing."""
        for held in self.tables.values():
            for writer in () if held.lsm is None else held.lsm.writers.values():
                if not writer.closed:
                    writer.abandon()

    def _add_view(self, rng: random.Random, name: str) -> None:
        node, columns = Queries(rng, self.shapes).view()
        native, _ = render(node, Reader.DATAFUSION)
        if len({column for column, _ in columns}) < len(columns) or is_beyond_datafusion(node):
            return
        self.views[name] = (native, _for_duckdb(node))
        (self.root / f"{name}.view.sql").write_text(native)
        self.shapes.append(Shape(name, columns))


def _for_duckdb(node: Node) -> str | None:
    try:
        return render(node, Reader.DUCKDB)[0]
    except AbstainError:
        return None


def _written(rng: random.Random, root: Path, spec: TableSpec, process: WriterProcess) -> HeldTable:
    """A table with a history."""
    size = rng.choice((0, 3, 12, 30, MAX_ROWS))
    keys = max(2, size)
    base = [spec.draw_row(rng, keys) for _ in range(rng.randint(0, size))] if rng.random() < 0.85 else []
    if spec.key:
        base = list({spec.key_of(row): row for row in base}.values())
    rows = pa.Table.from_pylist(base, spec.schema)
    path = root / f"{spec.name}.lance"
    if spec.flavour is None:
        if rng.random() < 0.4 and all(kind.family is not Family.OPAQUE for _, kind in spec.columns):
            _write_in_two_bases(root, spec.name, rows)
        else:
            lance.write_dataset(rows, path, max_rows_per_file=rng.choice((8, 1000)))
        held = HeldTable(spec, path, None)
        held.take(base)
        return held
    lsm = LsmTable.create(
        root, spec.name, rows, spec.flavour.layout, process, stable_row_ids=rng.random() < 0.3,
        # A writer replays no log that one with more memory wrote, as the gateway is.
        max_memtable_rows=100 if spec.is_written else rng.choice((4, 100)),
    )  # fmt: skip
    lsm.is_shared = spec.is_written
    held = HeldTable(spec, path, lsm)
    held.take(base)
    for _ in range(rng.randint(0, 4) if size else 0):
        _happen(rng, held, rng.choice(_EVENTS))
    return held


def _write_in_two_bases(root: Path, name: str, rows: pa.Table) -> None:
    """Two files of the same name, which those of other such tables have as well: one in a base elsewhere."""
    path, elsewhere = root / f"{name}.lance", root / f"{name}-elsewhere"
    half = rows.num_rows // 2
    make_table(path, rows.slice(0, half), bases=[create_base_path(elsewhere, 1)])
    commit_fragments(path, write_fragment(elsewhere, rows.slice(half), base_id=1))


def _put(rng: random.Random, held: HeldTable) -> None:
    keys = max(2, len(held.rows))
    count = min(rng.randint(1, 12), MAX_ROWS - len(held.rows))
    held.put([held.spec.draw_row(rng, keys + 2) for _ in range(count)])


def _delete(rng: random.Random, held: HeldTable) -> None:
    if held.rows and held.spec.key:
        keys = list(held.rows)
        held.delete(rng.sample(keys, min(len(keys), rng.randint(1, 4))))


def _flush(_: random.Random, held: HeldTable) -> None:
    held.flush()


def _merge(_: random.Random, held: HeldTable) -> None:
    held.merge()


_Event = Callable[[random.Random, HeldTable], None]
_EVENTS: tuple[_Event, ...] = (_put, _put, _put, _delete, _flush, _flush, _merge)


def _happen(rng: random.Random, held: HeldTable, event: _Event) -> None:
    event(rng, held)
