"""Two tables of the same typed rows, which pass through the states that rows of a table can be in."""

import random
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

from lance_gateway.memwal.rules import IS_JSON, IS_UUID
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.pipeline.merging import MergePolicy, merge
from lance_gateway.planner.access.rights import FULL_ACCESS
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.engine import QueryEngine, SessionSettings
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.planner.writes.dml.ingest import prepare_ingest
from tests.fuzz.typed.types import Type
from tests.support.lake.tables import LsmTable, key_field, unpartitioned
from tests.support.processes.gateways import EAGER
from tests.support.processes.writer_process import WriterProcess

STATES = ("base", "log", "generation", "merged")
"""Where the rows of a table are, in the order in which it passes through them."""
TABLE, OTHER = "facts", "others"
KEY = "id"
ROWS = 20
_RULES = {b"json": {IS_JSON: b"true"}, b"uuid": {IS_UUID: b"true"}}


@dataclass(frozen=True)
class Column:
    """A column of every table."""

    name: str
    type: Type


@dataclass
class Lake:
    """Two tables of the same rows.

    Attributes:
        engine: Reads them; another one wrote them.
        columns: Two of each type, beside the key.
        rows: What each table holds, in any state.
        is_ours: Whether the gateway writes the log, and not Lance.
        tables: Name -> table.
    """

    engine: QueryEngine
    columns: tuple[Column, ...]
    rows: pa.Table
    is_ours: bool
    tables: Mapping[str, "Passing"]

    @staticmethod
    def draw(
        rng: random.Random,
        root: Path,
        types: Sequence[Type],
        process: WriterProcess,
        stack: ExitStack,
        *,
        fills: bool = True,
    ) -> "Lake":
        """Write the tables; `fills` gives values to the fields of structs that are NULL."""
        columns = tuple(Column(f"{one.name}_{which}", one) for one in types for which in "xy")
        fields = [
            pa.field(one.name, one.type.arrow, metadata=_RULES.get(one.type.rule or b"")) for one in columns
        ]
        schema = pa.schema([key_field(KEY, pa.int64()), *fields])
        rows, old = (_draw_rows(rng, columns, schema, fills=fills) for _ in range(2))
        is_ours = rng.random() < 0.5
        writing = QueryEngine(Catalog.open(str(root), writing=EAGER), partitions=1)
        stack.callback(writing.close)
        tables = {
            name: Passing(rng, root, name, rows, old, process, writing if is_ours else None)
            for name in (TABLE, OTHER)
        }
        engine = QueryEngine(Catalog.open(str(root), writing=EAGER), partitions=rng.choice((1, 2)))
        stack.callback(engine.close)
        plain = pa.schema([one.remove_metadata() for one in schema])
        return Lake(engine, columns, rows.cast(plain), is_ours, tables)


def _draw_rows(rng: random.Random, columns: Sequence[Column], schema: pa.Schema, *, fills: bool) -> pa.Table:
    nulls = {one.name: rng.choice((0.0, 0.1, 0.4)) for one in columns}
    pools = {one.name: one.type.all_values if rng.random() < 0.3 else one.type.values for one in columns}
    drawn = {
        one.name: [
            None if rng.random() < nulls[one.name] else rng.choice(pools[one.name]) for _ in range(ROWS)
        ]
        for one in columns
    }
    arrays = [pa.array(range(ROWS), pa.int64())]
    arrays += [_array(drawn[one.name], one.type.arrow, fills=fills) for one in columns]
    return pa.table(arrays, schema=schema)


def _array(values: list[Any], arrow: pa.DataType, *, fills: bool) -> pa.Array:
    """An array as other libraries make it: the fields of a struct that is NULL have values."""
    if fills and pa.types.is_struct(arrow):
        children = [
            _array(
                [_filler(one.type) if value is None else value[one.name] for value in values],
                one.type,
                fills=True,
            )
            for one in arrow
        ]
        return pa.StructArray.from_arrays(
            children, fields=list(arrow), mask=pa.array([value is None for value in values])
        )
    if pa.types.is_dictionary(arrow):
        return pa.array(values, arrow.value_type).dictionary_encode().cast(arrow)
    return pa.array(values, arrow)


def _filler(arrow: pa.DataType) -> Any:
    if pa.types.is_decimal(arrow):
        return Decimal("9.95")
    return "hidden" if pa.types.is_string(arrow) else 77


class Passing:
    """A table that passes through the states, over older versions of some of its rows.

    In the base table alone, some keys are there twice: other writers of Lance append rows of known keys.

    Args:
        rng: draws what is below the rows, and how they are divided.
        root: of the lake.
        name: of the table.
        rows: of each state.
        old: older versions of them.
        process: writes as Lance does.
        writing: writes as the gateway does; None where Lance writes.

    Attributes:
        state: one of `STATES`.
    """

    def __init__(
        self,
        rng: random.Random,
        root: Path,
        name: str,
        rows: pa.Table,
        old: pa.Table,
        process: WriterProcess,
        writing: QueryEngine | None,
    ) -> None:
        self.state = STATES[0]
        self._path, self._name, self._rows, self._writing = root / f"{name}.lance", name, rows, writing
        self._cut = rng.randrange(1, ROWS)
        lance.write_dataset(
            old.slice(0, rng.choice((0, ROWS // 2, ROWS))), self._path, data_storage_version="2.2"
        )
        layout = unpartitioned((KEY,), 1)
        layout.initialize(lance.dataset(self._path))
        self._before = lance.dataset(self._path).version
        self._table = LsmTable(self._path, (KEY,), layout, process, {"max_memtable_rows": 100})
        lance.write_dataset(rows, self._path, mode="append")

    def advance(self) -> None:
        """Bring the rows to the next state."""
        self.state = STATES[STATES.index(self.state) + 1]
        if self.state == "log":
            lance.dataset(self._path, version=self._before).restore()
            for part in (self._rows.slice(0, self._cut), self._rows.slice(self._cut)):
                self._put(part)
        elif self.state == "merged":
            merge(LakeTable.at(str(self._path)), MergePolicy())
        elif self._writing is None:
            self._table.close_writers()
        else:
            self._writing.catalog.table(self._name).writer().flush()

    def _put(self, rows: pa.Table) -> None:
        if self._writing is None:
            (region,) = {self._table.region_of({KEY: one}) for one in rows.column(KEY).to_pylist()}
            self._table.writer(region).put(rows)
            return
        prepared = prepare_ingest(
            self._writing, TableName(self._name), rows.schema, SessionSettings(), FULL_ACCESS
        )
        prepared.execute(iter(rows.to_batches()), RunControl())
