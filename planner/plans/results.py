"""Result schemas that every client can read, and errors that every client can understand."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import ClassVar

import pyarrow as pa
from datafusion import DataFrame, RecordBatch

from memwal.errors import InvalidInputError, LanceGatewayError, PreconditionError
from planner.binding.substrait import Bound
from planner.bridge.plain_types import TypeSet, plain_type
from planner.bridge.run_control import RunControl
from planner.tables.sources.base_table import FilesVanishedError
from planner.tables.sources.generations import GenerationVanishedError

RUN_ATTEMPTS = 8
"""A merger that is in a hurry may remove what a slow machine was about to read, several times in a row."""


def stream_batches(frame: DataFrame, control: RunControl) -> Iterator[pa.RecordBatch]:
    """DataFusion's batches. Its own stream, not an Arrow one: dropping only that stops the work behind it."""
    # Not interrupted while it makes the physical plan: it panics where asking a leaf for its columns fails.
    # What DataFusion refuses then is raised here.
    stream = control.run_uninterrupted(frame.execute_stream)
    held: list[Iterator[pa.RecordBatch]] = [map(RecordBatch.to_pyarrow, stream)]
    del stream  # the list alone holds it, and is emptied at the end
    return control.wait_for_each(held)


def retry_if_files_vanish(
    batches: Iterator[pa.RecordBatch], restart: Callable[[], Iterator[pa.RecordBatch]]
) -> Iterator[pa.RecordBatch]:
    """The same batches; begun anew, on a new snapshot, when files vanish before there is a first batch.

    What vanished was merged or compacted, so the new snapshot has its rows elsewhere.
    """
    for attempt in range(RUN_ATTEMPTS):
        try:
            first = next(batches, None)
        except (FilesVanishedError, GenerationVanishedError):
            if attempt == RUN_ATTEMPTS - 1:
                raise
            batches = restart()
            continue
        if first is not None:
            yield first
            yield from batches
        return


_PRIVATE_NAME = re.compile(r'"([^"]+)#\d+"|\b(\w+)#\d+\b')
# How the bindings quote an exception that was raised in Python; only its own text is fit for a client.
_PYTHON_ERROR = re.compile(r"Python error PyErr \{.*?value: (.*?), traceback: .*", re.DOTALL)
_PLANNING = ("Error during planning:", "Schema error:", "type_coercion", "This feature is not implemented:")
_DATA = (
    "Arrow error:",
    "Cast error",
    "Divide by zero",
    "Overflow",
    "Parser error",
    "Invalid argument error",
    # What functions and operators say of their arguments.
    "Execution error:",
    # Patterns that are computed, and so not looked at before.
    "regex parse error",
    "Invalid regex",
    "exceeds size limit",
)
_PANIC = "panicked"
_EXHAUSTED = "Resources exhausted"
_ALLOCATION = re.compile(
    r"Failed to allocate additional ([\d.]+ \w+) for (\w+).*?\(pool_size: ([\d.]+ \w+)\)", re.DOTALL
)
# A function that is called with what it does not take, which DataFusion calls a bug of its own.
_NO_SIGNATURE = re.compile(
    r"Internal error: Function '(\w+)' failed to match any signature, errors: (.*?)\.?\n", re.DOTALL
)
_REASON = re.compile(
    r"Error during planning: Function '\w+' (.*?)(?=\.?,Error during planning: |$)", re.DOTALL
)
_WRAPPERS = re.compile(
    r"^(?:DataFusion error: |External error: |Context\(.*?\) caused by\s*|type_coercion\s+|caused by\s*"
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


def schema_changed_error(sql: str) -> PreconditionError:
    """A statement whose result is no longer what its client was told."""
    msg = "the result of this statement has changed since it was prepared, because a table was altered"
    return PreconditionError(f"{msg}: prepare it again: {sql}")


def normalize_schema(schema: pa.Schema, types: TypeSet = "arrow") -> pa.Schema:
    """The schema as it is advertised and streamed: no view types, no dictionaries, every field nullable.

    Nullable, because DataFusion's batches may be stricter or laxer than its logical schema says.
    """
    return pa.schema([pa.field(field.name, plain_type(field.type, types), nullable=True) for field in schema])


def translate_error(
    error: BaseException, bound: Bound, failure: LanceGatewayError | None
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
    text = _PYTHON_ERROR.sub(r"\1", text)
    message = _PRIVATE_NAME.sub(lambda found: found[1] or found[2], text)
    short = _WRAPPERS.sub("", message).strip()
    mismatch = _NO_SIGNATURE.match(short)
    if mismatch is not None:
        return InvalidInputError(_describe_mismatch(mismatch[1], mismatch[2]))
    if _EXHAUSTED in text:
        return ResourcesExhaustedError(_describe_exhaustion(short))
    if _PANIC not in text and any(mark in text for mark in (*_PLANNING, *_DATA)):
        return InvalidInputError(short)
    return QueryFailedError(short)


def _describe_mismatch(function: str, text: str) -> str:
    """Why none of a function's signatures fits, each reason once."""
    reasons = dict.fromkeys(reason.rstrip(".") for reason in _REASON.findall(text))
    return f"the function {function!r} does not take these arguments: it {', or '.join(reasons)}"


def _describe_exhaustion(text: str) -> str:
    """DataFusion's complaint of a limit, in the words of those who may change it."""
    found = _ALLOCATION.search(text)
    if found is None:
        return text
    more, consumer, limit = found.groups()
    return (
        f"the statement needs more than the {limit} of memory that one statement may hold ({consumer} asked "
        f"for {more} more): read fewer rows or columns, or ask the operator to raise query_memory_bytes"
    )
