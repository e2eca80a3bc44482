"""Tables, views and principals on which access is tested.

Of `orders`, an analyst sees the rows of tenant a whose note does not end in "x". Rows 0 to 8 differ in where
their newest version lies and on which side of that condition older versions are:

    0, 1  base only         2  base a, log b          4  base b, log a        6  deleted in the log
    7, 8  base, tenant b    3  base a, generation b   5  base b, generation a    9  log only
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

from lance_gateway.planner.access.rights import TableAccess
from lance_gateway.planner.engine import QueryEngine
from tests.support.judging.principals import ALL, create_principal
from tests.support.lake.tables import LsmTable, bucketed, key_field
from tests.support.processes.writer_process import WriterProcess

ORDERS = pa.schema(
    [
        key_field("id", pa.int64()),
        pa.field("tenant", pa.string()),
        pa.field("amount", pa.int32()),
        pa.field("email", pa.string()),
        pa.field("code", pa.string()),
        pa.field("note", pa.string()),
        pa.field("margin", pa.float64()),
    ]
)
VISIBLE = [0, 4, 5, 9]
HIDDEN_WORDS = ("margin", "payroll", "wages", "boss", "secret", "right(note", "left(email")

ANALYST = create_principal(
    orders=TableAccess(
        row_filter="tenant = 'a' AND right(note, 1) <> 'x'",
        masks={"email": "left(email, 1) || '***'", "code": "'0'"},
        hidden_columns=frozenset({"margin", "note"}),
    ),
    items=ALL,
    recent=ALL,
    bonus=ALL,
)
"""`bonus` is a view over a table that the analyst has no grant for."""
FILTERED = create_principal(orders=TableAccess(row_filter="tenant = 'a'"))
MASKED = create_principal(orders=TableAccess(masks={"id": "id % 2", "amount": "NULL", "email": "'hidden'"}))
KEYLESS = create_principal(orders=TableAccess(hidden_columns=frozenset({"id"})))
NOBODY = create_principal()

VIEWS = {
    "recent": "SELECT id, tenant, email, amount FROM orders WHERE amount >= 0",
    "bonus": "SELECT * FROM payroll",
    "private": "SELECT id FROM orders",
}


def order(number: int, tenant: str, *, note: str = "ok", amount: int | None = None) -> dict[str, Any]:
    """Hidden rows are poisoned: amount 5 divides by zero below, code "oops" is not a number."""
    seen = tenant == "a" and not note.endswith("x")
    return {
        "id": number,
        "tenant": tenant,
        "amount": (10 + number if seen else 5) if amount is None else amount,
        "email": f"{'u' if seen else 'boss'}{number}@x.org",
        "code": "7" if seen else "oops",
        "note": note,
        "margin": 0.5,
    }


def write_lake(root: Path, writers: WriterProcess) -> None:
    """Write `orders` with a generation and a log, `items` and `payroll` without, and three views."""
    tenants = {0: "a", 2: "a", 3: "a", 4: "b", 5: "b", 6: "a", 7: "b", 8: "b"}
    base = [order(number, tenant) for number, tenant in tenants.items()] + [order(1, "a", note="no x")]
    rows = pa.Table.from_pylist(base, schema=ORDERS)
    table = LsmTable.create(root, "orders", rows, bucketed("id", 2, recorded=True), writers)
    table.put([order(3, "b"), order(5, "a")])
    table.close_writers()
    table.put([order(2, "b"), order(4, "a"), order(9, "a"), order(10, "b")])
    table.delete([{"id": 6}])
    items = pa.table({"order_id": range(11), "sku": [f"s{number}" for number in range(11)]})
    lance.write_dataset(items, root / "items.lance")
    wages = pa.table({"id": [1, 2], "wages": [10, 20], "who": ["boss", "secret"]})
    lance.write_dataset(wages, root / "payroll.lance")
    for name, sql in VIEWS.items():
        (root / f"{name}.view.sql").write_text(sql)


Ask = Callable[..., list[tuple[Any, ...]]]


def asker(engine: QueryEngine) -> Ask:
    """Rows of a statement as a principal sees them, sorted unless the statement orders them."""

    def ask(sql: str, access: Any = ANALYST, *parameters: Any) -> list[tuple[Any, ...]]:
        values = [pa.scalar(value) for value in parameters]
        answer = engine.prepare(sql, access=access).execute(values).read_all()
        rows = list(zip(*(column.to_pylist() for column in answer.columns), strict=True))
        return rows if "ORDER BY" in sql else sorted(rows, key=repr)

    return ask
