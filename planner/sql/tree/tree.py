"""The tree of one query, and the types of its expressions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, TypeVar

import pyarrow as pa
from sqlglot import exp

from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError
from lance_gateway.memwal.transforms.determinism import has_unstable_call
from lance_gateway.planner.sql.text.tokens import PlacedMessage, fold
from lance_gateway.planner.sql.tree.dialect import write_sql
from lance_gateway.planner.sql.tree.types import Operations, Types

Family: TypeAlias = Literal[
    "decimal", "floating", "integer", "instant", "zoned", "date", "text", "bytes", "other"
]
"""Types that rules treat alike; "instant" is a timestamp without a zone, and "zoned" one with a zone."""
Rule: TypeAlias = "Callable[[Tree], None]"
"""Changes a tree."""
T = TypeVar("T")
_TESTS: Final[tuple[tuple[Callable[[pa.DataType], bool], Family], ...]] = (
    (pa.types.is_decimal, "decimal"),
    (pa.types.is_floating, "floating"),
    (pa.types.is_integer, "integer"),
    (lambda kind: bool(pa.types.is_timestamp(kind) and kind.tz is None), "instant"),
    (pa.types.is_timestamp, "zoned"),
    (pa.types.is_date, "date"),
    (pa.types.is_string, "text"),
    (pa.types.is_large_string, "text"),
    (pa.types.is_string_view, "text"),
    (pa.types.is_binary, "bytes"),
    (pa.types.is_large_binary, "bytes"),
    (pa.types.is_fixed_size_binary, "bytes"),
)


@lru_cache(maxsize=1024)
def find_family(kind: pa.DataType) -> Family:
    """Return the family of a type."""
    if pa.types.is_dictionary(kind):
        return find_family(kind.value_type)
    return next((family for is_one, family in _TESTS if is_one(kind)), "other")


def is_unstable(node: exp.Expr) -> bool:
    """Return whether an expression calls a function whose result changes from call to call."""
    return has_unstable_call([call.name.upper() for call in node.find_all(exp.Func)])


def read_name(identifier: exp.Expr) -> str:
    """Return an identifier as DataFusion reads it."""
    return identifier.name if identifier.args.get("quoted") else fold(identifier.name)


class Tree:
    """A query that rules rewrite.

    Attributes:
        root: the query.
        is_changed: whether a rule changed it.
        tables: names of the tables that it reads.
        columns: of these; those of UUIDs have this type, though they are texts.
        nulls: names of the parameters that are NULL.

    Args:
        root: the query.
        find_schema: plans a query over the same tables and parameters, and returns the schema of its result.
        schemas: name of a table that it reads -> its columns.
        parameters: name of a parameter, without "$" -> its type.
        operations: types of operations that are known from other queries.
        sql: the text that errors show.
        nulls: names of the parameters that are NULL.
    """

    def __init__(
        self,
        root: exp.Query,
        find_schema: Callable[[str], pa.Schema | None],
        schemas: Mapping[str, pa.Schema] = MappingProxyType({}),
        parameters: Mapping[str, pa.DataType] = MappingProxyType({}),
        operations: Operations | None = None,
        *,
        sql: str = "",
        nulls: Collection[str] = (),
    ) -> None:
        self._sql = sql
        self.root = root
        self.is_changed = False
        self.nulls = nulls
        self.tables: Collection[str] = schemas.keys()
        self.columns = tuple(column for schema in schemas.values() for column in schema)
        self._find_schema = find_schema
        self._schemas: dict[str, pa.Schema | None] = {}
        self._types = Types(schemas, parameters, self._plan, {} if operations is None else operations)
        self._nodes: Sequence[exp.Expr] | None = None
        self._kinds: Collection[type[exp.Expr]] = ()
        self._found: dict[tuple[type[exp.Expr], ...], Sequence[exp.Expr]] = {}
        self._read: dict[tuple[Callable[[Any], object], int], Any] = {}
        # With the nodes: another one could get the identity of one that is gone.
        self._fields: dict[int, tuple[exp.Expr, pa.Field | None]] = {}

    def find_all(self, *kinds: type[exp.Expr]) -> Sequence[Any]:
        """Return the expressions of some classes, the outer ones first, before further changes."""
        if self._nodes is None:
            self._nodes = list(self.root.walk())
            self._kinds = {type(node) for node in self._nodes}
        # Most rules look for what a query does not have.
        classes = _list_classes(kinds)
        if classes.isdisjoint(self._kinds):
            return ()
        found = self._found.get(kinds)
        if found is None:
            found = self._found[kinds] = [node for node in self._nodes if type(node) in classes]
        return found

    def read_once(self, read: Callable[[Any], T], node: exp.Expr) -> T:
        """Return what a function reads of an expression of the tree, which it is asked for once a change."""
        name = (read, id(node))
        if name not in self._read:
            self._read[name] = read(node)
        found: T = self._read[name]
        return found

    def find_calls(self, *names: str) -> Sequence[exp.Anonymous]:
        """Return the calls of some functions, the outer ones first; names are in small letters."""
        return [call for call in self.find_all(exp.Anonymous) if call.name.casefold() in names]

    def replace(self, node: exp.Expr, replacement: exp.Expr) -> None:
        """Put another expression in the place of one, which may be part of it as a copy."""
        self._note_change()
        self._types.forget(node)
        if node is self.root:
            assert isinstance(replacement, exp.Query)  # noqa: S101 - a rule gives a query for a query
            self.root = replacement
        else:
            node.replace(replacement)

    def note_change(self) -> None:
        """Forget what was found of the query, which a rule changed in place."""
        self._note_change()
        self._types.clear()

    def _note_change(self) -> None:
        self.is_changed, self._nodes = True, None
        self._found.clear()
        self._read.clear()
        self._fields.clear()

    def error(
        self, node: exp.Expr, what: str, kind: type[LanceGatewayError] = InvalidInputError
    ) -> LanceGatewayError:
        """Return an error at the first place of an expression.

        Args:
            node: of the text that was parsed.
            what: what is wrong, without the place.
            kind: of the error.
        """
        starts = [one.meta["start"] for one in node.walk() if "start" in one.meta]
        return kind(PlacedMessage(self._sql, min(starts, default=0), what))

    def find_text(self, node: exp.Expr) -> str:
        """Return an expression as the user wrote it, if its places show where it begins and ends."""
        starts = [one.meta["start"] for one in node.walk() if "start" in one.meta]
        ends = [one.meta["end"] for one in node.walk() if "end" in one.meta]
        if not starts:
            return write_sql(node)
        text = self._sql[min(starts) : max(ends) + 1]
        return text if text.count("(") == text.count(")") else write_sql(node)

    def guess_families(self, expression: exp.Expr) -> frozenset[Family] | None:
        """Return the families that an expression may be of, without planning it; None if it may be any."""
        kind = self._types.find(expression)
        if kind is None:
            return None
        return frozenset() if pa.types.is_null(kind) else frozenset({find_family(kind)})

    def may_mix(self, members: Iterable[exp.Expr], *families: Family) -> bool:
        """Return whether each of some families may be that of a different expression, without planning."""
        guesses = [self.guess_families(member) for member in members]
        found = [
            [at for at, one in enumerate(guesses) if one is None or family in one] for family in families
        ]
        return all(found) and len({at for places in found for at in places}) >= len(families)

    def find_type(self, expression: exp.Expr) -> pa.DataType | None:
        """Return the type of an expression, as DataFusion plans it where it is in the query.

        Returns:
            The Arrow type; None if it is not known, as that of a parameter without a value.
        """
        kind = self._types.find(expression)
        if kind is None and not isinstance(expression, exp.Parameter):
            field = self.find_field(expression)
            kind = None if field is None else field.type
        return None if kind is None or pa.types.is_null(kind) else kind

    def find_field(self, expression: exp.Expr) -> pa.Field | None:
        """Return the name and the type that an expression has as a column of a result, without an alias."""
        known = self._fields.get(id(expression))
        if known is None:
            known = self._fields[id(expression)] = expression, self._plan_field(expression)
        return known[1]

    def _plan_field(self, expression: exp.Expr) -> pa.Field | None:
        select = expression.parent_select
        copy = expression.copy()
        is_bare = isinstance(copy, exp.Select | exp.SetOperation)
        probe = exp.Select(expressions=[exp.Subquery(this=copy) if is_bare else copy])
        while True:
            if select is not None:
                _read_same_rows(probe, select, expression.find_ancestor(exp.Join))
            schema = self._plan(write_sql(_with_common_tables(probe, expression)))
            select = None if select is None or schema is not None else select.parent_select
            if select is None:
                return schema.field(0) if schema else None
            # The expression may read columns of the query around it.
            probe = exp.Select(expressions=[exp.alias_(exp.Subquery(this=probe), "x", quoted=True)])

    def find_columns(self, relation: exp.Expr) -> Sequence[pa.Field]:
        """Return the columns of a table or a subquery in FROM; none if they are not known."""
        return self._find_known(relation) or self.plan_columns(relation)

    def plan_columns(self, relation: exp.Expr) -> Sequence[pa.Field]:
        """Return the columns of a relation as DataFusion plans them, with the types of extensions."""
        everything = exp.select("*").from_(relation.copy())
        schema = self._plan(write_sql(_with_common_tables(everything, relation)))
        return () if schema is None else list(schema)

    def find_outputs(self, query: exp.Query) -> Sequence[pa.Field]:
        """Return the outputs of a query, as DataFusion plans it where it is; none if they are not known."""
        if known := self._find_known(query):
            return known
        schema = self._plan(write_sql(_with_common_tables(query, query)))
        return () if schema is None else list(schema)

    def is_closed(self, query: exp.Query) -> bool:
        """Return whether a query is planned by itself: it reads no columns of queries around it."""
        return self._plan(write_sql(_with_common_tables(query, query))) is not None

    def _find_known(self, query: exp.Expr) -> Sequence[pa.Field]:
        """Return the columns of a query or a relation if all are known without a plan; none for others."""
        outputs = self._types.find_outputs(query) or ()
        found = [pa.field(name, kind) for name, kind in outputs if name is not None and kind is not None]
        return found if len(found) == len(outputs) else ()

    def find_fields(self, output: exp.Expr) -> Sequence[pa.Field]:
        """Return the columns that an output of a SELECT gives, without an alias; none if not known."""
        select = output.parent_select
        if select is None:
            return ()
        probe = select.copy()
        for key in ("with_", "distinct", "order", "limit", "offset"):
            probe.set(key, None)
        probe.set("expressions", [output.copy()])
        schema = self._plan(write_sql(_with_common_tables(probe, output)))
        return () if schema is None else list(schema)

    def _plan(self, sql: str) -> pa.Schema | None:
        if sql not in self._schemas:
            try:
                self._schemas[sql] = self._find_schema(sql)
            except Exception:  # noqa: BLE001 - the plan of the statement raises what is wrong with it
                self._schemas[sql] = None
        return self._schemas[sql]


@cache
def _list_classes(kinds: Collection[type[exp.Expr]]) -> frozenset[type[exp.Expr]]:
    """Return classes with those that are derived from them."""
    return frozenset(kinds).union(*(_list_classes(tuple(kind.__subclasses__())) for kind in kinds))


def _read_same_rows(probe: exp.Select, select: exp.Select, around: exp.Join | None) -> None:
    """Let a query read what another one reads; in the condition of a join, columns of both sides are seen."""
    for key in ("from_", "joins", "laterals"):
        part = select.args.get(key)
        probe.set(key, [one.copy() for one in part] if isinstance(part, list) else part and part.copy())
    for join, copied in zip(select.args.get("joins") or (), probe.args.get("joins") or (), strict=True):
        if around is not None and join is around and join.kind in {"SEMI", "ANTI"}:
            copied.set("side", None)
            copied.set("kind", None)
    for join in probe.args.get("joins") or ():
        if join.args.get("on") is not None:
            join.set("on", exp.true())  # DataFusion may refuse the condition before all rules are applied


def _with_common_tables(probe: exp.Query, expression: exp.Expr) -> exp.Query:
    """Return a query with the common table expressions that an expression may read."""
    tables: list[exp.CTE] = []
    is_recursive = False
    inner: exp.Expr | None = expression
    node = expression.parent
    while node is not None:
        with_ = node if isinstance(node, exp.With) else node.args.get("with_")
        if isinstance(with_, exp.With) and with_ is not inner:
            is_recursive |= bool(with_.args.get("recursive"))
            visible: list[exp.CTE] = with_.expressions
            if not with_.args.get("recursive"):
                visible = visible[: next((at for at, one in enumerate(visible) if one is inner), None)]
            taken = {table.alias for table in tables}
            # Those of outer queries come first, since inner ones may read them.
            tables = [*(table for table in visible if table.alias not in taken), *tables]
        inner, node = node, node.parent
    if not tables:
        return probe
    found = probe.copy()
    own = found.args.get("with_")
    copies = [table.copy() for table in tables]
    if own is not None:
        is_recursive |= bool(own.args.get("recursive"))
        copies = [one for one in copies if one.alias not in {table.alias for table in own.expressions}]
        copies += own.expressions
    found.set("with_", exp.With(expressions=copies, recursive=is_recursive))
    return found
