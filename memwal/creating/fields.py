"""Schemas of base tables with explicit field ids.

Lance gives a new column the lowest id that no column and no data file of the base table has. That may be the
id of a column that was dropped before it was merged: generations and log entries with that column would then
show its values as those of the new one. So this module chooses the ids.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa
from lance.schema import LanceSchema

from lance_gateway.memwal.errors import CorruptDataError
from lance_gateway.protos import mem_wal_pb2

LAST_FIELD_ID: Final = "lance-gateway.last-field-id"
"""In a table's configuration: no column may get this id or a lower one.

Not in the schema's metadata: Lance takes log entries for those of another table where that differs.
"""


def find_last_field_id(dataset: Any, field_ids: Iterable[int] = ()) -> int:  # noqa: ANN401 - lance types
    """Return the highest field id that is known to have been in use.

    Args:
        dataset: the newest version of the base table.
        field_ids: ids of fields that are stored elsewhere.

    Raises:
        CorruptDataError: what is recorded is not a number.
    """
    recorded = dataset.config().get(LAST_FIELD_ID, "-1")
    try:
        return max([int(recorded), int(dataset.max_field_id), *field_ids])
    except ValueError as error:
        msg = f"{dataset.uri}: {LAST_FIELD_ID} of its configuration is {recorded!r}, and no number"
        raise CorruptDataError(msg) from error


def record_last_field_id(dataset: Any, last_id: int) -> None:  # noqa: ANN401 - lance types
    """Commit that field ids up to this one were in use, before a column is dropped."""
    if dataset.config().get(LAST_FIELD_ID) != str(last_id):
        dataset.update_config({LAST_FIELD_ID: str(last_id)})


def change_fields(
    dataset: Any,  # noqa: ANN401 - lance types
    removed: Sequence[str],
    added: Sequence[pa.Field],
    after: int,
) -> LanceSchema:
    """Return the schema of a dataset without some columns, and with others at its end.

    Args:
        dataset: the base table.
        removed: names of columns.
        added: columns.
        after: the highest id that new ones may not have.
    """
    metadata, existing = _unpack_schema(dataset.lance_schema)
    gone = {field.id for field in existing if field.name in removed and field.parent_id < 0}
    for field in existing:  # Children come after their parents.
        if field.parent_id in gone:
            gone.add(field.id)
    new = _unpack_schema(LanceSchema.from_pyarrow(pa.schema(added)))[1] if added else []
    for field in new:
        field.id += after + 1
        if field.parent_id >= 0:
            field.parent_id += after + 1
    return _pack_schema(metadata, [*(field for field in existing if field.id not in gone), *new])


def replace_fields(dataset: Any, fields: Sequence[pa.Field]) -> LanceSchema:  # noqa: ANN401 - lance types
    """Return the schema of a dataset in which some columns without children are declared in another way.

    Args:
        dataset: the base table.
        fields: columns of the names and types that are there.
    """
    metadata, existing = _unpack_schema(dataset.lance_schema)
    _, declared = _unpack_schema(LanceSchema.from_pyarrow(pa.schema(fields)))
    by_name = {field.name: field for field in declared}
    replaced = []
    for field in existing:
        new = by_name.get(field.name) if field.parent_id < 0 else None
        if new is not None:
            new.id = field.id
        replaced.append(field if new is None else new)
    return _pack_schema(metadata, replaced)


def _unpack_schema(schema: LanceSchema) -> tuple[dict[str, list[int]], list[mem_wal_pb2.SchemaField]]:
    _, (metadata, *encoded) = schema.__reduce__()
    return json.loads(metadata), [mem_wal_pb2.SchemaField.FromString(one) for one in encoded]


def _pack_schema(metadata: dict[str, list[int]], fields: Sequence[mem_wal_pb2.SchemaField]) -> LanceSchema:
    encoded = [field.SerializeToString() for field in fields]
    return LanceSchema._from_protos(json.dumps(metadata), *encoded)  # noqa: SLF001 - unpickling
