"""Rules that every table of a history has, and statements that violate them."""

from typing import Any, Final

import pyarrow as pa
from hypothesis import strategies as st

from tests.oracle.answers.predicates import Draw
from tests.oracle.replay.changes import Change, Target, draw_rows, values

LONGEST: Final = 200
"""Characters of `s`: more than any other step writes."""
FORBIDDEN: Final = 987_654
"""A number that no other step writes to `n`."""
RULES: Final = (
    f"ALTER COLUMN s TYPE VARCHAR({LONGEST})",
    f"ADD CONSTRAINT allowed CHECK (n <> {FORBIDDEN})",
)
VIOLATED: Final = f"takes at most {LONGEST} characters|violates constraint 'allowed'"
_WRONG: Final[dict[str, Any]] = {"s": "x" * (LONGEST + 1), "n": FORBIDDEN}


def violation(draw: Draw, target: Target, *, bulk: bool) -> Change:
    """Rows of which one violates a rule, in one of the ways to write."""
    rows = draw_rows(draw, target)
    column = draw(st.sampled_from(sorted(_WRONG)), label="violated")
    draw(st.sampled_from(rows))[column] = _WRONG[column]
    names = ", ".join(f'"{one.name}"' for one in target.columns)
    way = draw(st.sampled_from(["values", "many", "conflict", "update", *(["ingest"] if bulk else [])]))
    insert = f"INSERT INTO {target.name} ({names}) VALUES"
    sql = f"{insert} {values(rows, target.columns)}"
    if way == "conflict" and len({tuple(row[name] for name in target.key) for row in rows}) == len(rows):
        sets = f"{column} = excluded.{column}"
        return Change(f"{sql} ON CONFLICT ({', '.join(target.key)}) DO UPDATE SET {sets}", {}, 0)
    if way == "update" and target.model.rows():
        value = f"repeat('x', {LONGEST + 1})" if column == "s" else str(FORBIDDEN)
        return Change(f"UPDATE {target.name} SET {column} = {value}", {}, 0)
    arrays = [pa.array([row[one.name] for row in rows], one.type) for one in target.columns]
    if way == "many":
        marks = ", ".join(f"${number}" for number in range(1, len(arrays) + 1))
        many = pa.table(arrays, [str(number) for number in range(1, len(arrays) + 1)])
        return Change(f"{insert} ({marks})", {}, 0, many=many)
    if way == "ingest":
        ingested = pa.table(arrays, [one.name for one in target.columns])
        return Change(f"ingest into {target.name}", {}, 0, ingested=ingested)
    return Change(sql, {}, 0)
