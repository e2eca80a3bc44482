"""The tree of one query, and the types of its expressions."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from sqlglot import exp

from planner.sql.rules.dialect import write_sql


class Tree:
    """A query that rules rewrite.

    Attributes:
        root: the query.
        is_changed: whether a rule changed it.

    Args:
        root: the query.
        find_schema: plans a query over the same tables and parameters, and returns the schema of its result.
    """

    def __init__(self, root: exp.Query, find_schema: Callable[[str], pa.Schema]) -> None:
        self.root = root
        self.is_changed = False
        self._find_schema = find_schema
        self._types: dict[str, pa.DataType | None] = {}

    def replace(self, node: exp.Expr, replacement: exp.Expr) -> None:
        """Put another expression in the place of one, which may be part of it as a copy."""
        self.is_changed = True
        if node is self.root:
            assert isinstance(replacement, exp.Query)  # noqa: S101 - a rule gives a query for a query
            self.root = replacement
        else:
            node.replace(replacement)

    def find_type(self, expression: exp.Expr) -> pa.DataType | None:
        """Return the type of an expression, as DataFusion plans it where it is in the query.

        Returns:
            The Arrow type; None if it is not known, as that of a parameter without a value.
        """
        select = expression.parent_select
        probe = exp.Select(expressions=[exp.alias_(expression.copy(), "x", quoted=True)])
        while True:
            if select is not None:
                _read_same_rows(probe, select)
            sql = write_sql(_with_common_tables(probe, expression))
            kind = self._types[sql] if sql in self._types else self._types.setdefault(sql, self._plan(sql))
            select = None if select is None or kind is not None else select.parent_select
            if select is None:
                return None if kind is None or pa.types.is_null(kind) else kind
            # The expression may read columns of the query around it.
            probe = exp.Select(expressions=[exp.alias_(exp.Subquery(this=probe), "x", quoted=True)])

    def _plan(self, sql: str) -> pa.DataType | None:
        try:
            return self._find_schema(sql).field(0).type
        except Exception:  # noqa: BLE001 - the plan of the statement raises what is wrong with it
            return None


def _read_same_rows(probe: exp.Select, select: exp.Select) -> None:
    for key in ("from_", "joins", "laterals"):
        part = select.args.get(key)
        probe.set(key, [one.copy() for one in part] if isinstance(part, list) else part and part.copy())


def _with_common_tables(probe: exp.Select, expression: exp.Expr) -> exp.Select:
    """Return a query with the common table expressions that an expression may read."""
    tables: dict[str, exp.CTE] = {}
    is_recursive = False
    inner: exp.Expr | None = expression
    node = expression.parent
    while node is not None:
        with_ = node if isinstance(node, exp.With) else node.args.get("with_")
        if isinstance(with_, exp.With):
            is_recursive |= bool(with_.args.get("recursive"))
            for table in with_.expressions:
                if table is inner and not with_.args.get("recursive"):
                    break
                tables.setdefault(table.alias, table)
        inner, node = node, node.parent
    if not tables:
        return probe
    found = probe.copy()
    # Those of outer queries come first, since inner ones may read them.
    copies = [table.copy() for table in reversed(tables.values())]
    found.set("with_", exp.With(expressions=copies, recursive=is_recursive))
    return found
