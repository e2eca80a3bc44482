"""Names columns one by one where DataFusion would read their old names in lower case.

    SELECT c FROM (SELECT "Id" FROM t) AS s (c)
->  SELECT c FROM (SELECT "Id" AS c FROM (SELECT "Id" FROM t) AS "s#") AS s
    WITH s (c, d) AS (SELECT "Id", 1 FROM t) SELECT c FROM s
->  WITH s AS (SELECT "Id" AS c, "s#2" AS d FROM (SELECT "Id", 1 AS "s#2" FROM t) AS "s#") SELECT c FROM s
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from planner.sql.edits import Edit
from planner.sql.standard.query_bodies import QueryBody, find_bodies, find_column, find_outputs, split_alias
from planner.sql.tokens import SqlText, quote

_MISREAD: Final = re.compile(r"(?![a-z_][a-z0-9_]*$)[\w$]+(?:\.[\w$]+)*")
"""Names that DataFusion takes for identifiers, and of which it makes others."""


def move_column_lists(text: SqlText) -> Iterator[Edit]:
    """Yield edits that give names to the columns of queries whose own names would be misread."""
    words = text.words
    for body in find_bodies(text):
        opening, closing = body.tokens.start - 1, body.tokens.stop
        if opening >= 0 and words[opening - 1] != "LATERAL" and words[closing : closing + 2] == (")", "AS"):
            yield from _move(text, closing + 3, body)
    for one, query in _find_common_tables(text):
        yield from _move(text, one.start + 1, query)


def _find_common_tables(text: SqlText) -> Iterator[tuple[range, QueryBody]]:
    """Yield the tokens of common tables that are not recursive, and their queries."""
    bodies = {body.tokens.stop: body for body in reversed(find_bodies(text))}
    for body in bodies.values():
        if body.common_tables and text.words[body.tokens.start + 1] != "RECURSIVE":
            yield from ((one, bodies[one.stop - 1]) for one in body.common_tables if one.stop - 1 in bodies)


def _move(text: SqlText, columns: int, body: QueryBody) -> Iterator[Edit]:
    """Yield the edits for a list of columns, by its bracket, and the query that it names."""
    if text.words[columns] != "(":
        return
    end = text.closing(columns)
    names = [text.sql[text.start(i) : text.end(i)] for i in range(columns + 1, end, 2)]
    edits: list[Edit] = []
    old: list[str] = []
    outputs = find_outputs(text, body.operands[0])
    if any(text.words[output.stop - 1] == "*" for output in outputs):
        return
    for number, output in enumerate(outputs, start=1):
        expression, alias = split_alias(text, output)
        name = alias or find_column(text, expression)
        if name is None:
            name = f"s#{number}"
            edits.append(Edit.insert(text.end(output.stop - 1), f" AS {quote(name)}"))
        old.append(name)
    if len(old) != len(names) or not are_misread(old):
        return
    yield from edits
    yield Edit.insert(text.start(body.tokens.start), f"{rename_columns(old, names)} FROM (")
    yield Edit.insert(text.start(body.tokens.stop), ') AS "s#"')
    yield Edit.replace(text.start(columns), text.end(end), "")


def are_misread(names: Sequence[str]) -> bool:
    """Return whether a list of columns has no effect on those of these names, which are different."""
    return len(set(names)) == len(names) and any(map(_MISREAD.fullmatch, names))


def rename_columns(old: Sequence[str], new: Sequence[str]) -> str:
    """Return the SELECT that names columns anew, up to its FROM.

    Args:
        old: names.
        new: names, as SQL.
    """
    return f"SELECT {', '.join(f'{quote(one)} AS {other}' for one, other in zip(old, new, strict=True))}"
