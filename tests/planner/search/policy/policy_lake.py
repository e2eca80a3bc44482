"""A table that is searched under policies, and twins of it that hold nothing but what a principal may see.

Hidden rows are the bait: they lie close to the query vector, and they alone have the words of the query that
are rare elsewhere.
"""

import itertools
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

from lance_gateway.memwal.errors import LanceGatewayError
from lance_gateway.planner.access.rights import FULL_ACCESS, Access, TableAccess
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.support.judging.principals import filter_visible
from tests.support.lake.tables import LsmTable, bucketed, key_field
from tests.support.processes.writer_process import WriterProcess

DIMENSION = 4
DOCS = pa.schema(
    [
        key_field("id", pa.int64()),
        pa.field("tenant", pa.string()),
        pa.field("title", pa.string()),
        pa.field("pages", pa.int32()),
        pa.field("body", pa.string()),
        pa.field("note", pa.string()),
        pa.field("vec", pa.list_(pa.float32(), DIMENSION)),
        pa.field("secret", pa.list_(pa.float32(), DIMENSION)),
    ]
)
QUERY = [0.5, 0.5, 0.5, 0.5]
WORDS = ("lake", "stream", "merge", "vector", "region", "writer", "flush", "index")
RARE = "payroll laka"
"""Only rows of tenant b have these words; one of them comes before "lake" in an index."""


def docs(numbers: range | list[int], version: int, *, tenants: str = "aabab") -> list[dict[str, Any]]:
    """Rows whose values differ between versions."""
    rows = []
    for number in numbers:
        random = np.random.default_rng((number, version))
        tenant = tenants[(number + version) % len(tenants)]
        # No two rows of one length: equal scores could come in any order.
        text = "lake " + " ".join(random.choice(WORDS, size=3 + number + 60 * version))
        vector = random.random(DIMENSION, dtype=np.float32)
        if tenant == "b":
            text = f"{RARE} {text}"
            vector = np.array(QUERY, np.float32) + vector / 100
        rows.append(
            {
                "id": number,
                "tenant": tenant,
                "title": f"T{number % 3}" if number % 7 else None,
                "pages": number * (version + 1) % 11,
                "body": text,
                "note": "x" if number % 6 == 5 else "ok",
                "vec": vector.tolist(),
                "secret": random.random(DIMENSION, dtype=np.float32).tolist(),
            }
        )
    return rows


def add_indexes(path: Path) -> None:
    """One on vectors that answers exactly, one on words."""
    dataset = lance.dataset(path)
    dataset.create_scalar_index("body", "INVERTED")
    if dataset.count_rows():
        dataset.create_index("vec", "IVF_FLAT", num_partitions=1)


class Lake:
    """The table in full, and twins that were filtered and masked when they were written."""

    def __init__(self, path: Path, writers: WriterProcess) -> None:
        self._path = path
        self._numbers = itertools.count()
        self.root = path / "full"
        self.root.mkdir(parents=True)
        rows = pa.Table.from_pylist(docs(range(40), 0), schema=DOCS)
        layout = bucketed("id", 2, recorded=True)
        self.table = table = LsmTable.create(self.root, "docs", rows, layout, writers)
        add_indexes(table.path)
        lance.dataset(table.path).insert(pa.Table.from_pylist(docs(range(40, 50), 0), schema=DOCS))
        table.put(docs([1, 4, 8, 12, 16, 41, 50, 51], 1))
        table.delete([{"id": 2}, {"id": 3}])
        table.close_writers()
        table.put(docs([3, 5, 9, 13, 52, 53], 2))
        table.delete([{"id": 7}, {"id": 51}])
        self.engine = QueryEngine(Catalog.open(str(self.root)))
        self.rows = self.engine.execute("SELECT * FROM docs").read_all().combine_chunks()

    def twin(self, access: TableAccess) -> QueryEngine:
        """A lake whose table has the visible rows, the masked values, and the same indexes."""
        root = self._path / str(next(self._numbers))
        root.mkdir()
        seen = filter_visible(self.rows, access)
        lance.write_dataset(seen, root / "docs.lance")
        add_indexes(root / "docs.lance")
        return QueryEngine(Catalog.open(str(root)))


def answer(engine: QueryEngine, sql: str, access: Access = FULL_ACCESS) -> list[dict[str, Any]] | str:
    """Rows in order, with scores to six digits; or what went wrong."""
    try:
        rows = engine.prepare(sql, access=access).execute().read_all().to_pylist()
    except LanceGatewayError as error:
        return f"{type(error).__name__}: {error}"
    return [{name: _rounded(value) for name, value in row.items()} for row in rows]


def _rounded(value: object) -> object:
    return float(f"{value:.5g}") if isinstance(value, float) else value
