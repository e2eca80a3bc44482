"""The bridge: a table reference as a leaf of a DataFusion plan.

DataFusion plans a `pyarrow.dataset.Dataset` as a DatasetExec with one partition per fragment, hands over the
projection and the reference's own conjuncts, and treats them as applied exactly. See
docs/adr/0001-datasetexec-bridge.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from lance_gateway.planner.access.secured_table import SecuredTable
from lance_gateway.planner.scans.query_run import QueryRun, TableScan
from lance_gateway.planner.scans.scan_plan import Conditions
from lance_gateway.planner.tables.sources.base_table import BaseTable


class TableLeaf(pads.Dataset):
    """Dataset that stands for one private table name of a statement.

    Args:
        run: the statement's execution.
        table: what the name stands for, with what may be seen of it.
        partitions: fragments to offer.
        base: the newest version of the table, where it is known already.
        reference: the private name.
    """

    def __init__(
        self,
        run: QueryRun,
        table: SecuredTable,
        partitions: int,
        base: BaseTable | None = None,
        reference: str = "",
    ) -> None:
        self._run = run
        self._table = table
        self._reference = reference
        self._partitions = partitions
        self._base = table.base if base is None else base
        self._schema = table.visible_schema
        self._columns: tuple[str, ...] = tuple(self._schema.names)
        self._conjuncts: pc.Expression | None = None
        self._conditions: Conditions | None = None

    def reopen(self, run: QueryRun, table: SecuredTable) -> bool:
        """Bind the leaf to another run and version of the table; return False if the columns differ."""
        base = table.base
        if not table.visible_schema.equals(self._schema, check_metadata=True):
            return False
        self._run, self._table, self._base = run, table, base
        return True

    def release(self) -> None:
        """Drop the references to the run and the table; `reopen` sets them again."""
        del self._run, self._table, self._base

    schema = property(
        attrgetter("_schema"), doc="Visible columns of the table when the statement was planned."
    )

    def scanner(self, columns: list[str] | None = None, filter: Any = None, **_: Any) -> Projection:  # noqa: A002, ANN401, ARG002
        """Return the projected schema; DataFusion calls this once per scan, before `get_fragments`."""
        self._columns = tuple(self._schema.names if columns is None else columns)
        return Projection(self._schema, self._columns)

    def get_fragments(self, filter: pc.Expression | None = None) -> list[Partition]:  # noqa: A002
        """Plan a scan, with one fragment per partition; nothing is read yet."""
        # Conjuncts that fold to a constant arrive as a bare scalar.
        conjuncts = pc.scalar(filter) if isinstance(filter, pa.Scalar) else filter
        if conjuncts is not None and any(pa.types.is_nested(kind) for kind in self._schema.types):
            _check_evaluable(conjuncts, self._schema)
        scan = self._scan(conjuncts)
        return [Partition(scan, number) for number in range(self._partitions)]

    def rescan(self) -> TableScan | None:
        """Plan the filtered scan of an earlier run in the run of now; None if there was none."""
        return None if self._conjuncts is None else self._scan(self._conjuncts)

    def _scan(self, conjuncts: pc.Expression | None) -> TableScan:
        """Add the scan that reads the partitions."""
        scan = self._run.add_scan(
            self._table,
            self._base,
            self._columns,
            conjuncts,
            partitions=self._partitions,
            reference=self._reference,
        )
        # To read an expression takes longer than to scan a small table.
        is_same = self._conjuncts is not None and conjuncts is not None and conjuncts.equals(self._conjuncts)
        if scan.policy is None:
            if self._conditions is not None and is_same:
                scan.conditions = self._conditions
            self._conditions = scan.conditions
        self._conjuncts = conjuncts
        return scan


class DeclaredLeaf(TableLeaf):
    """Table that is only described: its columns are nullable as declared."""

    @property
    def schema(self) -> pa.Schema:
        """Visible columns of the table, as declared."""
        required = self._table.required_columns
        return pa.schema([field.with_nullable(field.name not in required) for field in self._schema])


def _check_evaluable(conjuncts: pc.Expression, schema: pa.Schema) -> None:
    """Refuse conditions without Arrow kernels, such as comparisons of lists; DataFusion has its own."""
    try:
        schema.empty_table().filter(conjuncts)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise TypeError("a condition that Arrow can't evaluate") from error


class Projection:
    """Scanner that only has a projected schema."""

    def __init__(self, schema: pa.Schema, columns: tuple[str, ...]) -> None:
        self.projected_schema = pa.schema([schema.field(name) for name in columns])


class Partition:
    """One partition of a scan, in the shape of a dataset fragment."""

    def __init__(self, scan: TableScan, number: int) -> None:
        self._scan = scan
        self._number = number

    def scanner(self, *_: Any, **__: Any) -> PartitionScanner:  # noqa: ANN401
        """Return the scanner of the partition; projection and filter are known from planning."""
        return PartitionScanner(self._scan, self._number)


class PartitionScanner(Projection):
    """Scanner of the batches of one partition."""

    def __init__(self, scan: TableScan, number: int) -> None:
        super().__init__(scan.output_schema, scan.columns)
        self._scan = scan
        self._number = number

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Run the partition lazily."""
        return self._scan.batches(self._number)
