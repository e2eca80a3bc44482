"""Results as text for models: JSON with one row a line, cut at a number of rows and of bytes.

JSON rather than a Markdown table: it tells NULL from the text "NULL" and 1 from "1", nests, and needs no
escapes for pipes and line breaks. Each row repeats the names of its columns, so that wide rows are not
misread.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from lance_gateway.gateway.protocol.json_values import to_json_value


@dataclass(frozen=True, slots=True)
class AnswerLimits:
    """How much one answer may hold.

    Args:
        rows: at most.
        bytes: of the rows, in UTF-8.
    """

    rows: int
    bytes: int


def format_rows(schema: pa.Schema, batches: Iterable[pa.RecordBatch], limits: AnswerLimits) -> str:
    """Return rows as a JSON object with `columns`, `rows` and, if there are more, a `note`.

    Args:
        schema: columns of the result.
        batches: rows; not read further than they are shown.
        limits: of the answer.
    """
    names = _tell_apart(schema.names)
    lines: list[str] = []
    used, note = 0, None
    for row in _iterate_rows(batches):
        if len(lines) == limits.rows:
            note = f"there are more rows than these {limits.rows:,}"
            break
        line = json.dumps(dict(zip(names, map(to_json_value, row), strict=True)), ensure_ascii=False)
        used += len(line.encode())
        if used > limits.bytes:
            note = f"there are more rows than these {len(lines):,}, all that {limits.bytes:,} bytes hold"
            break
        lines.append(line)
    columns = {name: str(field.type) for name, field in zip(names, schema, strict=True)}
    parts = [f'"columns": {json.dumps(columns, ensure_ascii=False)}']
    parts.append('"rows": [\n' + ",\n".join(lines) + "\n]" if lines else '"rows": []')
    if note is not None:
        note += "; ask for fewer columns or rows, aggregate, or page with ORDER BY, LIMIT and OFFSET"
        parts.append(f'"note": {json.dumps(note)}')
    return "{" + ",\n".join(parts) + "}"


def _iterate_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.Scalar, ...]]:
    for batch in batches:
        for at in range(batch.num_rows):
            yield tuple(column[at] for column in batch.columns)


def _tell_apart(names: Iterable[str]) -> list[str]:
    """Return the names, each once: results may repeat them, and JSON objects may not."""
    taken: list[str] = []
    for name in names:
        unique, number = name, 1
        while unique in taken:
            number += 1
            unique = f"{name} ({number})"
        taken.append(unique)
    return taken
