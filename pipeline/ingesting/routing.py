"""On executors, before the shuffle: rows are checked, brought into the table's types, numbered by region.

All that can be wrong with rows is found here: where a row does not fit, no row is written.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from memwal.errors import InvalidInputError, LanceGatewayError, UnavailableError
from memwal.writing import OpenTable
from pipeline.ingesting.columns import Columns, first_failing
from pipeline.jobs.lake import LakeTable
from pipeline.spark.carrying import carrying
from pipeline.spark.versions import Versions

REGION = "__lance_gateway_region"
"""Column with the number of a row's region."""


@dataclass(frozen=True)
class Router:
    """For `DataFrame.mapInArrow`: rows as they came, in part cast, with the number of their region.

    Attributes:
        uri: of the table.
        options: of its storage.
        columns: how rows fit it.
        output: schema of what comes out.
        numbers: region id -> number, of regions that were there when the job began.
        versions: of the driver.
    """

    uri: str
    options: Mapping[str, str]
    columns: Columns
    output: pa.Schema
    numbers: Mapping[str, int]
    versions: Versions
    _known: dict[str, int] = field(default_factory=dict, compare=False)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Route batches.

        Raises:
            CarriedError: rows don't fit, or storage failed.
        """
        with carrying():
            self.versions.check()
            at = LakeTable.at(self.uri, self.options)
            table = OpenTable.open(at.name, at.storage)
            for batch in batches:
                if batch.num_rows:
                    yield from self.routed(table, pa.Table.from_batches([batch])).to_batches()

    def routed(self, table: OpenTable, rows: pa.Table) -> pa.Table:
        """Rows of one batch.

        Raises:
            InvalidInputError: a row does not fit, or its region can't be told.
            LanceGatewayError: the table can't be written, or storage failed.
        """
        self.columns.check(rows)
        conformed = self.columns.conformed(rows)
        numbers = self._numbers(table, conformed)
        arrays = []
        for one in self.output:
            if one.name == REGION:
                arrays.append(pa.chunked_array([numbers]))
            elif one.name in self.columns.given and rows.schema.field(one.name).type != one.type:
                arrays.append(conformed.column(one.name).cast(one.type))
            else:
                arrays.append(rows.column(one.name))
        return pa.Table.from_arrays(arrays, names=self.output.names).combine_chunks()

    def _numbers(self, table: OpenTable, rows: pa.Table) -> pa.Array:
        try:
            found = table.routed(rows)
        except UnavailableError:
            raise
        except Exception as error:  # a free expression fails as it likes
            at = first_failing(rows.num_rows, lambda start, length: table.routed(rows.slice(start, length)))
            alone = _failure(table, rows.slice(at, 1))
            if alone is None or (isinstance(error, LanceGatewayError) and not _is_about_values(error)):
                raise
            sources = ", ".join(
                f"{one} = {rows.column(one)[at].as_py()!r}"
                for one in _sources(table)
                if one in rows.schema.names
            )
            reason = str(alone).strip().split("\n")[0][:300]
            msg = (
                f"table {table.name!r}: the region of {self.columns.named(rows, at)} can't be told from "
                f"{sources}: {reason}"
            )
            raise InvalidInputError(msg) from error
        numbers = np.array([self._number(one) for one in found.region_ids], np.int64)
        if found.order is None:
            return pa.array(np.full(rows.num_rows, numbers[0]))
        placed = np.empty(rows.num_rows, np.int64)
        counts = np.diff(np.array([0, *found.bounds]))
        placed[found.order.to_numpy()] = np.repeat(numbers, counts)
        return pa.array(placed)

    def _number(self, region_id: str) -> int:
        known = self.numbers.get(region_id)
        # Routers everywhere agree on the numbers of regions that come into being meanwhile.
        return uuid.UUID(region_id).int >> 65 if known is None else known


def _failure(table: OpenTable, row: pa.Table) -> Exception | None:
    try:
        table.routed(row)
    except Exception as error:  # noqa: BLE001 - as above
        return error
    return None


def _is_about_values(error: LanceGatewayError) -> bool:
    return error.status == InvalidInputError.status


def _sources(table: OpenTable) -> list[str]:
    names = {field_id: name for name, field_id in table.field_ids.items()}
    return [names[one] for one in table.regions.source_ids if one in names]
