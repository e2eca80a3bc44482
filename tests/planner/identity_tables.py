"""Tables whose rows tell which file they are from, and what each way of reading them must give."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

from lance_gateway.planner.access.rights import FULL_ACCESS, Access, TableAccess
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.sources.keys import LOOKUPS_BEFORE
from tests.support.judging.principals import create_principal
from tests.support.judging.results import rows_of
from tests.support.lake.hand_made import commit_fragments, create_base_path, make_table, write_fragment
from tests.support.lake.tables import key_field

SCHEMA = pa.schema(
    [
        key_field("id", pa.int64()),
        pa.field("tenant", pa.string()),
        pa.field("title", pa.string()),
        pa.field("vec", pa.list_(pa.float32(), 2)),
    ]
)
Open = Callable[[Path], QueryEngine]
Row = dict[str, Any]

X_ONLY = TableAccess(row_filter="tenant = 'x'", masks={"title": "upper(title)"})
FILTERED_ONLY = TableAccess(row_filter="tenant = 'x'")
MASKED = create_principal(a=X_ONLY, b=X_ONLY, t=X_ONLY)
FILTERED = create_principal(a=FILTERED_ONLY, b=FILTERED_ONLY, t=FILTERED_ONLY)
PRINCIPALS: tuple[Access, ...] = (FULL_ACCESS, MASKED, FILTERED)


def rows(keys: Iterable[int], word: str, *, odd: str = "x", even: str = "y") -> pa.Table:
    """One row for each key; a table of another word differs in every column but the key."""
    shift = sum(map(ord, word)) / 7
    return pa.Table.from_pylist(
        [
            {
                "id": key,
                "tenant": odd if key % 2 else even,
                "title": f"{word} {key}",
                "vec": [key + shift, shift],
            }
            for key in keys
        ],
        schema=SCHEMA,
    )


def shown(stored: Iterable[Row], access: Access) -> dict[int, Row]:
    """What a principal sees of rows, by key; written out, so that no code under test decides it."""
    if access is FULL_ACCESS:
        return {row["id"]: row for row in stored}
    of_x = [row for row in stored if row["tenant"] == "x"]
    return {row["id"]: {**row, "title": row["title"].upper()} if access is MASKED else row for row in of_x}


def read(engine: QueryEngine, sql: str, access: Access) -> list[tuple[Any, ...]]:
    return rows_of(engine.prepare(sql, access=access).execute().read_all())


def check(engine: QueryEngine, table: str, stored: Sequence[Row], *, text: bool = False) -> None:
    """Whatever way a table is read, and whoever reads it, these are its rows."""
    for access in PRINCIPALS:
        expected = shown(stored, access)
        found = engine.prepare(f"SELECT * FROM {table}", access=access).execute().read_all()
        assert sorted(found.to_pylist(), key=lambda row: row["id"]) == [
            expected[key] for key in sorted(expected)
        ]
        assert read(engine, f"SELECT count(*), sum(id) FROM {table}", access) == [
            (len(expected), sum(expected) if expected else None)
        ]
        assert sorted(read(engine, f"SELECT title FROM {table} WHERE tenant = 'x'", access)) == sorted(
            (row["title"],) for row in expected.values() if row["tenant"] == "x"
        )
        for key in [*sorted({row["id"] for row in stored})[:2], 10_000]:
            assert read(engine, f"SELECT title FROM {table} WHERE id = {key}", access) == (
                [(expected[key]["title"],)] if key in expected else []
            )
        target = [3.0, 1.0]
        distances = sorted(
            (float(np.square(np.array(row["vec"]) - target).sum()), key) for key, row in expected.items()
        )
        nearest = (
            f"SELECT id FROM lance_vector_search('{table}', 'vec', {target}, k => 3) ORDER BY _distance, id"
        )
        assert read(engine, nearest, access) == [(key,) for _, key in distances[:3]]
        if text and access is not MASKED:  # what is masked can't be searched
            for word in sorted({row["title"].split()[0] for row in stored}):
                found_by = f"SELECT id FROM lance_fts('{table}', 'title', '{word}', k => 1000)"
                having = sorted((key,) for key, row in expected.items() if word in row["title"])
                assert sorted(read(engine, found_by, access)) == having


def look_up_often(engine: QueryEngine, table: str) -> None:
    """So that keys of the base table are kept."""
    for _ in range(LOOKUPS_BEFORE + 2):
        read(engine, f"SELECT id FROM {table} WHERE id = 1", FULL_ACCESS)


def index_texts(path: Path) -> None:
    lance.dataset(path).create_scalar_index("title", "INVERTED", with_position=True)


def with_bases(root: Path, name: str = "t") -> Path:
    """A table with files of one name in its own directory and in two bases, of both kinds."""
    path = root / f"{name}.lance"
    make_table(path, rows(range(1, 9), "oaks"))
    one, two = root / f"{name}_one", root / f"{name}_two"
    lance.dataset(path).add_bases([create_base_path(one, 1), create_base_path(two, 2, is_dataset_root=True)])
    commit_fragments(
        path,
        write_fragment(one, rows(range(101, 109), "elms", odd="y", even="x"), base_id=1),
        write_fragment(two / "data", rows(range(201, 240), "firs"), base_id=2),
    )
    return path
