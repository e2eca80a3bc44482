"""The predicates of each table reference of a query: conditions that all of its rows must satisfy to matter.

    WITH e AS (SELECT * FROM "events#1")
    SELECT * FROM e LEFT JOIN "names#1" AS n ON e.id = n.id AND n.name LIKE 'a%' WHERE e.day > '2026-03-01'

    events#1    day > '2026-03-01'
    names#1     name LIKE 'a%'

A predicate names columns of its table alone. Conditions are followed into derived tables and common table
expressions, whose outputs they name, and over equalities of inner joins; those on the nullable side of an
outer join count if they are not true of NULL. What is not understood here restricts nothing.

The `meta` of a predicate has as `start` the character at which its first name or constant stands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import pyarrow as pa
from sqlglot import exp

from lance_gateway.memwal.transforms.determinism import has_unstable_call
from lance_gateway.planner.sql.tree.queries import AGGREGATES, TOTALS, bare, conjuncts, without_subqueries
from lance_gateway.planner.sql.tree.tree import read_name

Predicates: TypeAlias = tuple[exp.Expr, ...]
"""Conditions over unqualified, quoted columns of one table."""
_Scope: TypeAlias = Mapping[str, "_CommonTable"]
_Outputs: TypeAlias = Mapping[str, tuple[exp.Expr, pa.DataType | None]]
"""Outputs of a query, in order: name -> expression, and type if it is known."""

_MAX_PLACES: Final = 1000
"""More places where tables are read are not followed: common table expressions that read others multiply."""
_STRICT: Final = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between, exp.Like)
"""Comparisons that are not true of NULL, if their operands are NULL with their columns."""
_STRICT_OPERANDS: Final = (
    *(exp.Column, exp.Identifier, exp.Literal, exp.Parameter, exp.Cast, exp.DataType, exp.Interval),
    *(exp.Paren, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod),
)
_NO_VALUES: Final = (exp.Query, exp.UDTF, exp.AggFunc, exp.Window, exp.Star, exp.Placeholder, exp.Dot)
_ROW_WISE: Final = ("limit", "offset", "fetch", "qualify", "windows", "laterals", "pivots", "connect")
"""Clauses of a query above which a condition can't be moved below it."""
_MATCHING: Final = ("by_name", "side", "kind", "on")
"""Clauses of a set operation that match outputs otherwise than by position."""


def find_predicates(
    root: exp.Query, schemas: Mapping[str, pa.Schema]
) -> Mapping[str, tuple[Predicates, ...]]:
    """Find the predicates of the tables of a query.

    Args:
        root: the query, whose tables have private names.
        schemas: private name of a table -> its columns.

    Returns:
        Private name -> predicates of each place where the query reads the table: rows that satisfy those of
        none are not needed. Tables with a place without predicates are left out.
    """
    stars = [one for one in root.find_all(exp.Select) if one.is_star]
    joins = [join for one in stars for join in one.args.get("joins") or ()]
    walk = _Walk(schemas, any(join.args.get("using") or join.args.get("method") for join in joins))
    try:
        walk.read_query(root, {}, ())
    except (_TooManyPlacesError, RecursionError):
        return {}
    for table in root.find_all(exp.Table):
        if id(table) not in walk.seen:
            name = read_name(table.this)
            if name not in schemas:
                return {}  # it may be a common table expression
            walk.places.setdefault(name, []).append(())
    return {name: tuple(places) for name, places in walk.places.items() if all(places)}


class _TooManyPlacesError(Exception):
    pass


@dataclass(frozen=True, slots=True)
class _CommonTable:
    """A common table expression, and those that it may read; without a query, one that reads itself."""

    query: exp.Expr | None
    scope: _Scope


@dataclass(slots=True, eq=False)
class _Source:
    """A relation in FROM.

    Attributes:
        node: the relation.
        name: that qualifies its columns.
        columns: name -> type, which is None if it is not known; None if the names are not known.
        is_nullable: whether an outer join may put NULL in the place of its rows.
        conditions: on its rows, over its unqualified columns.
    """

    node: exp.Expr
    name: str
    columns: Mapping[str, pa.DataType | None] | None
    is_nullable: bool = False
    conditions: list[exp.Expr] = field(default_factory=list)

    def find_type(self, name: str) -> pa.DataType | None:
        """Return the type of a column if it is known."""
        return None if self.columns is None else self.columns.get(name)

    def add(self, condition: exp.Expr) -> None:
        """Add a condition over columns of the relation, unless it may be true of its NULLs."""
        if not self.is_nullable or _rejects_nulls(condition):
            written = condition.copy()
            for column in written.find_all(exp.Column):
                column.set("table", None)
            if written not in self.conditions:
                self.conditions.append(written)


@dataclass(slots=True)
class _Walk:
    schemas: Mapping[str, pa.Schema]
    shares_columns: bool
    """Whether a star has columns that relations share once, so that positions of outputs are not known."""
    places: dict[str, list[Predicates]] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)
    outputs: dict[int, _Outputs | None] = field(default_factory=dict)
    count: int = 0

    def read_query(self, query: exp.Expr, scope: _Scope, conditions: Sequence[exp.Expr]) -> None:
        """Read a query, of whose rows those matter that satisfy conditions over its outputs."""
        scope = self._enter(query, scope)
        if isinstance(query, exp.Subquery):
            self.read_query(query.this, scope, conditions)
        elif isinstance(query, exp.SetOperation):
            for side in (query.this, query.expression):
                self.read_query(side, scope, self._pass_to_side(conditions, query, side, scope))
        elif isinstance(query, exp.Select):
            self._read_select(query, scope, conditions)
        else:
            self._read_inner(query, scope)

    def _enter(self, query: exp.Expr, scope: _Scope) -> _Scope:
        """Return the common table expressions that a query may read."""
        with_ = query.args.get("with_")
        for table in () if with_ is None else with_.expressions:
            name = read_name(table.args["alias"].this)
            common = _CommonTable(table.this, scope)
            if table.args["alias"].args.get("columns") or query.args["with_"].args.get("recursive"):
                common = _CommonTable(None, {})
                self.read_query(table.this, {**scope, name: common}, ())
            scope = {**scope, name: common}
        return scope

    def _read_select(self, select: exp.Select, scope: _Scope, conditions: Sequence[exp.Expr]) -> None:
        sources, found = self._make_sources(select, scope)
        own = _list_own(select)
        if conditions and _keeps_rows(select):
            outputs = self._list_outputs(select, scope) or {}
            own += _replace_columns(conditions, {name: value for name, (value, _) in outputs.items()})
        _restrict(sources, sources, found + _resolve(own, sources))
        for source in sources:
            self._read_source(source, scope)
        for key, value in select.args.items():
            if key not in {"from_", "with_"}:
                for node in value if isinstance(value, list) else [value]:
                    if isinstance(node, exp.Expr):
                        self._read_inner(node.args.get("on") if key == "joins" else node, scope)

    def _read_inner(self, node: exp.Expr | None, scope: _Scope) -> None:
        """Read the subqueries of an expression."""
        for one in () if node is None else without_subqueries(node):
            if isinstance(one, exp.Query):
                self.read_query(one, scope, ())

    def _make_sources(self, select: exp.Select, scope: _Scope) -> tuple[list[_Source], list[exp.Expr]]:
        """Return the relations of a SELECT, and equalities of its inner joins, resolved."""
        sources: list[_Source] = []
        equalities: list[exp.Expr] = []
        for part in (select.args.get("from_"), *(select.args.get("joins") or ())):
            if part is not None:
                equalities += _join(sources, self._make_source(part.this, scope), part)
        return sources, equalities

    def _make_source(self, node: exp.Expr, scope: _Scope) -> _Source:
        columns: Mapping[str, pa.DataType | None] | None = None
        query = None
        if isinstance(node, exp.Subquery) and not any(
            map(node.args.get, node.args.keys() - {"this", "alias"})
        ):
            query = node.this  # without joins or LIMIT behind it
        if isinstance(node, exp.Table):
            name = read_name(node.this)
            if name in scope:
                query, scope = scope[name].query, scope[name].scope
            elif name in self.schemas:
                columns = {column.name: column.type for column in self.schemas[name]}
        if query is not None and (outputs := self._list_outputs(query, scope)) is not None:
            columns = {name: kind for name, (_, kind) in outputs.items()}
        alias = node.args.get("alias")
        if not isinstance(alias, exp.TableAlias):
            alias = node
        elif alias.args.get("columns"):
            columns = None
        return _Source(node, read_name(alias.this) if isinstance(alias.this, exp.Identifier) else "", columns)

    def _list_outputs(self, query: exp.Expr, scope: _Scope) -> _Outputs | None:
        """Return the outputs of a query; None if they are not known."""
        query = bare(query)
        if not isinstance(query, exp.Select | exp.SetOperation):
            return None
        if id(query) not in self.outputs:
            self.outputs[id(query)] = None if query.args.get("with_") else self._find_outputs(query, scope)
        return self.outputs[id(query)]

    def _find_outputs(self, query: exp.Select | exp.SetOperation, scope: _Scope) -> _Outputs | None:
        if isinstance(query, exp.Select):
            return _name_outputs(query, self._make_sources(query, scope)[0])
        left, right = (self._list_outputs(one, scope) for one in (query.this, query.expression))
        if self.shares_columns or left is None or right is None or len(left) != len(right):
            return None
        if any(map(query.args.get, _MATCHING)):
            return None
        pairs = zip(left.items(), right.values(), strict=True)
        return {name: (value, kind if kind == other else None) for (name, (value, kind)), (_, other) in pairs}

    def _pass_to_side(
        self, conditions: Sequence[exp.Expr], query: exp.SetOperation, side: exp.Expr, scope: _Scope
    ) -> list[exp.Expr]:
        """Return conditions over outputs of a set operation as such over those of one of its sides.

        Those are left out whose columns have other types there, or may be equal and yet differ.
        """
        if not conditions or any(map(query.args.get, _ROW_WISE)):
            return []
        ours, theirs = (self._list_outputs(one, scope) or {} for one in (query, side))
        pairs = zip(ours.items(), theirs, strict=False)
        names = {name: _make_column(own) for (name, (_, kind)), own in pairs if _has_one_equal(kind)}
        return _replace_columns(conditions, names)

    def _read_source(self, source: _Source, scope: _Scope) -> None:
        self.count += 1
        if self.count > _MAX_PLACES:
            raise _TooManyPlacesError
        node, conditions = source.node, source.conditions
        if isinstance(node, exp.Table) and not node.args.get("joins"):
            self.seen.add(id(node))
            name = read_name(node.this)
            common = scope.get(name)
            if common is not None and common.query is not None:
                self.read_query(common.query, common.scope, conditions)
            elif common is None and name in self.schemas:
                self.places.setdefault(name, []).append(tuple(conditions))
            self._read_inner(node.args.get("this"), scope)
        elif isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query):
            self.read_query(node, scope, conditions)
        elif not isinstance(node, exp.Table):
            self._read_inner(node, scope)


def _join(sources: list[_Source], source: _Source, part: exp.Expr) -> list[exp.Expr]:
    """Add a relation to others, with the condition of its join; return equalities that hold of all rows."""
    side, kind = (str(part.args.get(key) or "").upper() for key in ("side", "kind"))
    before = list(sources)
    sources.append(source)
    found = _resolve(conjuncts(part.args.get("on")), sources)
    if kind in {"SEMI", "ANTI"}:
        hidden = before if side == "RIGHT" else [source]
        _restrict(hidden if kind == "ANTI" else sources, sources, found)
        for one in hidden:
            one.name, one.columns = "", {}
    elif side == "" and kind in {"", "INNER", "CROSS"}:
        # Nullable sides may change with later joins, so a condition is decided here.
        _restrict(sources, sources, found)
        return [one for one in found if isinstance(one, exp.EQ)]
    else:
        nullable = {"LEFT": [source], "RIGHT": before}.get(side)
        _restrict(nullable or [], sources, found)
        for one in nullable or sources:
            one.is_nullable = True
    return []


def _restrict(restricted: Sequence[_Source], sources: Sequence[_Source], found: Sequence[exp.Expr]) -> None:
    """Add conditions to the relations that they restrict.

    Args:
        restricted: the relations that may be.
        sources: all relations.
        found: conditions of which only rows matter that satisfy all, resolved.
    """
    alone: dict[str, list[exp.Expr]] = {}
    for condition in found:
        owners = {column.table for column in condition.find_all(exp.Column)}
        if len(owners) == 1:
            alone.setdefault(owners.pop(), []).append(condition)
    for owner, conditions in alone.items():
        if sources[int(owner)] in restricted:
            for condition in conditions:
                sources[int(owner)].add(condition)
    for equality in found:
        if not isinstance(equality, exp.EQ):
            continue
        sides: tuple[exp.Expr, ...] = (equality.this, equality.expression)
        pairs = (sides, sides[::-1]) if all(isinstance(one, exp.Column) for one in sides) else ()
        for one, other in pairs:
            source, target = (sources[int(column.text("table"))] for column in (one, other))
            kind = source.find_type(one.name)
            if target in restricted and _has_one_equal(kind) and kind == target.find_type(other.name):
                for moved in _replace_columns(alone.get(one.text("table"), ()), {one.name: other}):
                    target.add(moved)


def _has_one_equal(kind: pa.DataType | None) -> bool:
    """Return whether a value of a type equals itself alone, as floats don't, with their two zeros."""
    return kind is not None and not (pa.types.is_floating(kind) or pa.types.is_nested(kind))


def _resolve(conditions: Sequence[exp.Expr], sources: Sequence[_Source]) -> list[exp.Expr]:
    """Return the conditions that read nothing but columns, with the numbers of their relations."""
    found = []
    for condition in conditions:
        if any(map(_is_other_than_a_value, condition.walk())):
            continue
        resolved = condition.copy()
        columns = list(resolved.find_all(exp.Column))
        owners = [_find_owner(column, sources) for column in columns]
        if None not in owners:
            starts = [node.meta["start"] for node in resolved.walk() if "start" in node.meta]
            resolved.meta.setdefault("start", min(starts, default=None))
            for column, owner in zip(columns, owners, strict=True):
                column.set("this", exp.to_identifier(read_name(column.this), quoted=True))
                column.set("table", exp.to_identifier(str(owner)))
            found.append(resolved)
    return found


def is_current(node: exp.Expr) -> bool:
    """Return whether an expression is the time of a statement."""
    return isinstance(node, exp.CurrentTimestamp | exp.CurrentDate) or (
        isinstance(node, exp.Anonymous) and node.name.lower() == "now" and not node.expressions
    )


def _is_other_than_a_value(node: exp.Expr) -> bool:
    """Return whether a node gives rows, is an aggregate, or differs in each run by more than its time."""
    if not isinstance(node, exp.Func) or is_current(node):
        return isinstance(node, _NO_VALUES)
    name = (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).lower()
    is_unstable = name.startswith("current_") or has_unstable_call([name.upper()])
    return isinstance(node, _NO_VALUES) or is_unstable or name == "unnest" or name in AGGREGATES


def _find_owner(column: exp.Column, sources: Sequence[_Source]) -> int | None:
    """Return the number of the relation of a column; None if it is not known."""
    name, table = read_name(column.this), column.args.get("table")
    if column.args.get("db"):
        return None  # a field of a column
    if table is not None:
        owners = [at for at, one in enumerate(sources) if one.name == read_name(table)]
    elif any(one.columns is None for one in sources):
        return None
    else:
        owners = [at for at, one in enumerate(sources) if name in (one.columns or ())]
    return owners[0] if len(owners) == 1 and name in (sources[owners[0]].columns or ()) else None


def _rejects_nulls(condition: exp.Expr) -> bool:
    """Return whether a condition is not true where all columns in it are NULL."""
    if isinstance(condition, exp.Paren):
        return _rejects_nulls(condition.this)
    if isinstance(condition, exp.Connector):
        sides = map(_rejects_nulls, (condition.this, condition.expression))
        return any(sides) if isinstance(condition, exp.And) else all(sides)
    tested = condition.this if isinstance(condition, exp.Not) else condition
    if not isinstance(tested, _STRICT):
        return False
    operands = [tested.this] if isinstance(tested, exp.In | exp.Between) else [tested.this, tested.expression]
    return any(
        one.find(exp.Column) and all(isinstance(each, _STRICT_OPERANDS) for each in one.walk())
        for one in operands
    )


def _keeps_rows(select: exp.Select) -> bool:
    """Return whether conditions on the outputs of a SELECT say which of the rows matter that it reads."""
    distinct = select.args.get("distinct")
    if any(map(select.args.get, _ROW_WISE)) or (distinct is not None and distinct.args.get("on")):
        return False
    nodes = (node for output in select.expressions for node in without_subqueries(output))
    return _has_one_grouping(select) and not any(isinstance(node, exp.Window) for node in nodes)


def _has_one_grouping(select: exp.Select) -> bool:
    """Return whether what a SELECT has beside aggregates is the same in all rows of a group."""
    group = select.args.get("group") or exp.Group()
    has_modifiers = any(value for key, value in group.args.items() if key != "expressions")
    return not has_modifiers and not any(isinstance(one, TOTALS) for one in group.expressions)


def _list_own(select: exp.Select) -> list[exp.Expr]:
    """Return the conditions of WHERE, and those of HAVING, which hold for the rows of a group."""
    where, having = (select.args.get(key) for key in ("where", "having"))
    conditions = [] if where is None else conjuncts(where.this)
    if having is not None and select.args.get("group") and _has_one_grouping(select):
        # A name without a table may be that of an output.
        names = {read_name(one.args["alias"]) for one in select.expressions if isinstance(one, exp.Alias)}
        conditions += [
            one
            for one in conjuncts(having.this)
            if all(column.table or read_name(column.this) not in names for column in one.find_all(exp.Column))
        ]
    return conditions


def _name_outputs(select: exp.Select, sources: Sequence[_Source]) -> _Outputs | None:
    """Return the outputs of a SELECT; None if they are not known."""
    found: list[tuple[str, exp.Expr, pa.DataType | None]] = []
    for output in select.expressions:
        if output.is_star:
            star, table = output.this if isinstance(output, exp.Column) else output, output.args.get("table")
            starred = [one for one in sources if table is None or one.name == read_name(table)]
            if any(star.args.values()) or any(one.columns is None for one in starred):
                return None
            columns = [(one.name, pair) for one in starred for pair in (one.columns or {}).items()]
            found += [(name, _make_column(name, relation), kind) for relation, (name, kind) in columns]
        else:
            value = output.unalias()
            owner = _find_owner(value, sources) if isinstance(value, exp.Column) else None
            kind = None if owner is None else sources[owner].find_type(read_name(value.this))
            named = output.args["alias"] if isinstance(output, exp.Alias) else output.this
            is_named = isinstance(output, exp.Alias | exp.Column)
            found.append((read_name(named) if is_named else "", value, kind))
    counts = Counter(name for name, *_ in found)
    return {
        # What has no name of its own has one that no statement has.
        (name if counts[name] == 1 and name[:1] not in {"", "\0"} else f"\0{at}"): (value, kind)
        for at, (name, value, kind) in enumerate(found)
    }


def _make_column(name: str, table: str = "") -> exp.Column:
    qualifier = exp.to_identifier(table, quoted=True) if table else None
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=qualifier)


def _replace_columns(conditions: Sequence[exp.Expr], values: Mapping[str, exp.Expr]) -> list[exp.Expr]:
    """Return conditions with values in the place of their columns, by name, where all have one."""
    found = []
    for condition in conditions:
        whole = exp.Paren(this=condition.copy())
        columns = list(whole.find_all(exp.Column))
        if all(column.name in values for column in columns):
            for column in columns:
                value = values[column.name].copy()
                column.replace(value if isinstance(value, exp.Column) else exp.Paren(this=value))
            found.append(whole.this)
    return found
