"""A table with regions and its expected rows, to check the base table after a merge."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_gateway.pipeline.jobs.lake import LakeTable, TableState
from lance_gateway.pipeline.merging import committing
from tests.support.lake.tables import Layout, LsmTable, Row
from tests.support.processes.writer_process import WriterProcess


@dataclass
class MergedTable:
    """A table, and the newest row of each of its keys.

    Attributes:
        table: The table.
        rows: By key.
    """

    table: LsmTable
    rows: dict[tuple[Any, ...], Row] = field(default_factory=dict)

    @staticmethod
    def create(
        root: Path,
        writers: WriterProcess,
        layout: Layout,
        schema: pa.Schema,
        base: Iterable[Mapping[str, Any]] = (),
        *,
        stable_row_ids: bool = False,
    ) -> "MergedTable":
        """Return a table ``t`` with base rows."""
        rows = pa.Table.from_pylist([dict(row) for row in base], schema=schema)
        table = LsmTable.create(root, "t", rows, layout, writers, stable_row_ids=stable_row_ids)
        kept = MergedTable(table)
        kept.rows = {kept.key(row): row for row in rows.to_pylist()}
        return kept

    @property
    def lake_table(self) -> LakeTable:
        return LakeTable.at(str(self.table.path))

    def key(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.table.key)

    def put(self, *rows: Mapping[str, Any]) -> None:
        self.table.put([dict(row) for row in rows])
        self.rows.update({self.key(row): dict(row) for row in rows})

    def delete(self, *keys: Mapping[str, Any]) -> None:
        self.table.delete([dict(key) for key in keys])
        for key in keys:
            self.rows.pop(self.key(key), None)

    def flush(self) -> None:
        """Flush all written rows to generations."""
        self.table.close_writers()

    def base(self) -> lance.LanceDataset:
        return self.table.dataset()

    def check(self) -> None:
        """The base table has every newest row once, and everything that was flushed is marked."""
        found = self.base().to_table().to_pylist()
        assert len({self.key(row) for row in found}) == len(found), f"a key is there twice: {found}"
        assert {self.key(row): row for row in found} == self.rows
        state = TableState.read(self.lake_table)
        for region in state.regions.values():
            flushed = [one.generation for one in region.manifest.flushed_generations]
            assert region.merged == max(flushed, default=0), (region.region_id, flushed)

    def list_extents(self) -> list[str]:
        """Files in which mergers agree."""
        directory = self.table.path / "_gateway" / "merging"
        return sorted(path.name for path in directory.iterdir()) if directory.exists() else []


def run_between(
    monkeypatch: pytest.MonkeyPatch, action: Callable[[], object], *, before_pass: int = 1
) -> None:
    """Run `action` once, after a pass of a merge has chosen its version and before it commits."""
    pinned = committing._Work._pin_base
    passes = 0

    def first_act(work: committing._Work) -> Any:
        nonlocal passes
        base = pinned(work)
        passes += 1
        if passes == before_pass:
            action()
        return base

    monkeypatch.setattr(committing._Work, "_pin_base", first_act)
