"""Result schemas that every client can read, and errors that every client can understand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

import pyarrow as pa

from memwal.errors import InvalidInputError, LanceGatewayError
from planner.binding import BoundStatement

_PRIVATE_NAME = re.compile(r'"([^"]+)#\d+"|\b(\w+)#\d+\b')
_PLANNING = ("Error during planning:", "Schema error:", "type_coercion", "This feature is not implemented:")
_DATA = ("Arrow error:", "Cast error", "Divide by zero", "Overflow", "Parser error", "Invalid argument error")
_WRAPPERS = re.compile(
    r"^(?:DataFusion error: |External error: |Context\(.*?\) caused by\s*|caused by\s*"
    r"|Optimizer rule '.*?' failed\s*|Arrow error: External error: |Error during planning: "
    r"|Execution error: |Invalid argument error: )+",
    re.DOTALL,
)


class QueryFailedError(LanceGatewayError):
    """DataFusion gave up for a reason that is neither the statement's nor the data's."""

    status: ClassVar[str] = "INTERNAL"


class ResourcesExhaustedError(LanceGatewayError):
    """The statement needs more memory than it may have."""

    status: ClassVar[str] = "RESOURCE_EXHAUSTED"


def normalised(schema: pa.Schema) -> pa.Schema:
    """The schema as it is advertised and streamed: no view types, no dictionaries, every field nullable.

    Nullable, because DataFusion's batches may be stricter or laxer than its logical schema says.
    """
    return pa.schema([pa.field(field.name, _plain(field.type), nullable=True) for field in schema])


def _plain(kind: pa.DataType) -> pa.DataType:
    if kind == pa.string_view():
        return pa.string()
    if kind == pa.binary_view():
        return pa.binary()
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_list_view(kind):
        item = pa.field(kind.value_field.name, _plain(kind.value_type), kind.value_field.nullable)
        return pa.large_list(item) if pa.types.is_large_list(kind) else pa.list_(item)
    if pa.types.is_fixed_size_list(kind):
        item = pa.field(kind.value_field.name, _plain(kind.value_type), kind.value_field.nullable)
        return pa.list_(item, kind.list_size)
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, _plain(one.type), one.nullable) for one in kind])
    return kind


def streamed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch under the advertised schema; copies nothing where only nullability differs."""
    columns = [
        column if column.type.equals(field.type) else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    if not columns:
        return batch
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def translated(
    error: BaseException, bound: BoundStatement, failure: LanceGatewayError | None
) -> LanceGatewayError:
    """What a failed statement is told.

    Args:
        error: as DataFusion's bindings raise it.
        bound: the statement; its private table names must not be shown.
        failure: the error of ours that DataFusion only passed on, if there was one.
    """
    if failure is not None:
        return failure
    if isinstance(error, LanceGatewayError):
        return error
    text = str(error)
    if "ParserError(" in text or "SQL error:" in text:
        return bound.syntax_error(text)
    message = _PRIVATE_NAME.sub(lambda found: found[1] or found[2], text)
    short = _WRAPPERS.sub("", message).strip()
    if "Resources exhausted" in text:
        return ResourcesExhaustedError(short)
    if any(mark in text for mark in _PLANNING) or any(mark in text for mark in _DATA):
        return InvalidInputError(short)
    return QueryFailedError(short)


def limited(batches: Iterator[pa.RecordBatch], rows: int | None) -> Iterator[pa.RecordBatch]:
    """At most `rows` rows."""
    for batch in batches:
        if rows is None:
            yield batch
            continue
        if rows <= 0:
            return
        yield batch.slice(0, rows)
        rows -= batch.num_rows
