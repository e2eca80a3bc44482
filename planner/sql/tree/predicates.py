"""The predicates of each table reference of a query: conditions that all of its rows must satisfy to matter.

    WITH e AS (SELECT * FROM "events#1")
    SELECT * FROM e LEFT JOIN "names#1" AS n ON e.id = n.id AND n.name LIKE 'a%' WHERE e.day > '2026-03-01'

    events#1    day > '2026-03-01'
    names#1     name LIKE 'a%'

A predicate names columns of its table alone. Conditions are followed into derived tables and common table
expressions, whose outputs they name, and over equalities of inner joins; those on the nullable side of an
outer join count if they are not true of NULL. What is not understood here restricts nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import pyarrow as pa
from sqlglot import exp

from lance_gateway.memwal.transforms.determinism import has_unstable_call
from lance_gateway.planner.sql.tree.queries import AGGREGATES, conjuncts, without_subqueries
from lance_gateway.planner.sql.tree.tree import read_name

Predicates: TypeAlias = tuple[exp.Expr, ...]
"""Conditions over unqualified, quoted columns of one table."""
_Scope: TypeAlias = Mapping[str, "_CommonTable"]

_MAX_PLACES: Final = 1000
"""More places where tables are read are not followed: common table expressions that read others multiply."""
_STRICT: Final = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between, exp.Like)
"""Comparisons that are not true of NULL, if their operands are NULL with their columns."""
_STRICT_OPERANDS: Final = (
    *(exp.Column, exp.Identifier, exp.Literal, exp.Parameter, exp.Cast, exp.DataType, exp.Interval),
    *(exp.Paren, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod),
)
_ROW_WISE: Final = ("limit", "offset", "fetch", "qualify", "windows", "laterals", "pivots", "connect")
"""Clauses of a SELECT above which a condition can't be moved below it."""


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
    walk = _Walk(schemas)
    try:
        walk.read_query(root, {}, ())
    except _TooManyPlacesError:
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


@dataclass(slots=True)
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


@dataclass(slots=True)
class _Walk:
    schemas: Mapping[str, pa.Schema]
    places: dict[str, list[Predicates]] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)
    outputs: dict[int, Mapping[str, pa.DataType | None] | None] = field(default_factory=dict)
    count: int = 0

    def read_query(self, query: exp.Expr, scope: _Scope, outputs: Sequence[exp.Expr]) -> None:
        """Read a query, of whose rows those matter that satisfy conditions over its outputs."""
        scope = self._enter(query, scope)
        if isinstance(query, exp.Subquery):
            is_plain = not any(query.args.get(key) for key in _ROW_WISE)
            self.read_query(query.this, scope, outputs if is_plain else ())
        elif isinstance(query, exp.SetOperation):
            # The types of outputs may differ from those of the columns that they are read from.
            self.read_query(query.this, scope, ())
            self.read_query(query.expression, scope, ())
        elif isinstance(query, exp.Select):
            self._read_select(query, scope, outputs)
        else:
            self._read_inner(query, scope)

    def _enter(self, query: exp.Expr, scope: _Scope) -> _Scope:
        """Return the common table expressions that a query may read."""
        with_ = query.args.get("with_")
        if with_ is None:
            return scope
        for table in with_.expressions:
            name = read_name(table.args["alias"].this)
            own = table.this if not table.args["alias"].args.get("columns") else None
            if own is None or with_.args.get("recursive"):
                self.read_query(table.this, {**scope, name: _CommonTable(None, {})}, ())
                own = None
            scope = {**scope, name: _CommonTable(own, scope)}
        return scope

    def _read_select(self, select: exp.Select, scope: _Scope, outputs: Sequence[exp.Expr]) -> None:
        sources: list[_Source] = []
        filters: list[exp.Expr] = []
        for part in [select.args.get("from_"), *(select.args.get("joins") or ())]:
            if part is not None:
                source = self._make_source(part.this, scope)
                _join(sources, source, part, filters)
        filters += conjuncts(select.args["where"].this) if select.args.get("where") else []
        filters += [one for output in outputs if (one := _read_below(output, select, sources)) is not None]
        _restrict(sources, filters)
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

    def _make_source(self, node: exp.Expr, scope: _Scope) -> _Source:
        columns: Mapping[str, pa.DataType | None] | None = None
        query: exp.Expr | None = None
        common: _CommonTable | None = None
        if isinstance(node, exp.Table):
            name = read_name(node.this)
            common = scope.get(name)
            query = None if common is None else common.query
            if common is None and name in self.schemas:
                columns = {column.name: column.type for column in self.schemas[name]}
        elif isinstance(node, exp.Subquery):
            query = node.this
        if query is not None:
            columns = self._find_columns(query, scope if common is None else common.scope)
        alias = node.args.get("alias")
        is_renamed = isinstance(alias, exp.TableAlias) and bool(alias.args.get("columns"))
        called = alias.this if isinstance(alias, exp.TableAlias) else node.this
        name = read_name(called) if isinstance(called, exp.Identifier) else ""
        return _Source(node, name, None if is_renamed else columns)

    def _find_columns(self, query: exp.Expr, scope: _Scope) -> Mapping[str, pa.DataType | None] | None:
        """Return the outputs of a query; None if their names are not known."""
        while isinstance(query, exp.Subquery):
            query = query.this
        if not isinstance(query, exp.Select) or query.args.get("with_"):
            return None
        if id(query) not in self.outputs:
            parts = [query.args.get("from_"), *(query.args.get("joins") or ())]
            sources = [self._make_source(one.this, scope) for one in parts if one is not None]
            self.outputs[id(query)] = _type_outputs(query, sources)
        return self.outputs[id(query)]

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


def _join(sources: list[_Source], source: _Source, part: exp.Expr, filters: list[exp.Expr]) -> None:
    """Add a relation to others, with the condition of its join."""
    side, kind = (str(part.args.get(key) or "").upper() for key in ("side", "kind"))
    joined = conjuncts(part.args["on"]) if part.args.get("on") else []
    if part.args.get("method"):
        joined = []
    before = list(sources)
    sources.append(source)
    if side == "" and kind in {"", "INNER", "CROSS"}:
        # Nullable sides may change with later joins, so a condition is decided here.
        _restrict(sources, joined)
        filters += [one for one in joined if isinstance(one, exp.EQ)]
    elif kind in {"SEMI", "ANTI"}:
        hidden = before if side == "RIGHT" else [source]
        _restrict(hidden if kind == "ANTI" else sources, joined, among=sources)
        for one in hidden:
            one.name, one.columns = "", {}
    elif side in {"LEFT", "RIGHT"}:
        nullable = [source] if side == "LEFT" else before
        _restrict(nullable, joined, among=sources)
        for one in nullable:
            one.is_nullable = True
    else:
        for one in sources:
            one.is_nullable = True


def _restrict(
    sources: Sequence[_Source], filters: Sequence[exp.Expr], among: Sequence[_Source] | None = None
) -> None:
    """Add conditions to the relations that they restrict.

    Args:
        sources: that may be restricted.
        filters: conditions of which only rows matter that satisfy all.
        among: all relations whose columns the conditions may name; by default, `sources`.
    """
    everything = sources if among is None else among
    found = [(one, owners) for one in filters if (owners := _find_owners(one, everything)) is not None]
    alone = [(one, owners) for one, owners in found if len({id(source) for _, source in owners}) == 1]
    for condition, owners in alone:
        owner = owners[0][1]
        if any(owner is source for source in sources):
            _add(owner, condition, {id(column): read_name(column.this) for column, _ in owners})
    for equality, pair in found:
        if not isinstance(equality, exp.EQ) or len(pair) != 2 or pair[0][1] is pair[1][1]:
            continue
        if {id(equality.this), id(equality.expression)} != {id(column) for column, _ in pair}:
            continue
        for (column, source), (other, target) in (pair, pair[::-1]):
            name, new = read_name(column.this), read_name(other.this)
            kind = (source.columns or {}).get(name)
            is_same = _has_one_equal(kind) and kind == (target.columns or {}).get(new)
            is_restricted = any(target is one for one in sources)
            if not is_same or not is_restricted or source.is_nullable or target.is_nullable:
                continue
            for condition, owners in alone:
                columns = [one for one, _ in owners]
                if owners[0][1] is source and all(read_name(one.this) == name for one in columns):
                    _add(target, condition, {id(one): new for one in columns})


def _has_one_equal(kind: pa.DataType | None) -> bool:
    """Return whether a value of a type equals itself alone, as floats don't, with their two zeros."""
    return kind is not None and not (pa.types.is_floating(kind) or pa.types.is_nested(kind))


def _add(source: _Source, condition: exp.Expr, names: Mapping[int, str]) -> None:
    """Add a condition to a relation, over unqualified columns, unless it may be true of its NULLs."""
    if source.is_nullable and not _rejects_nulls(condition):
        return
    columns = {name: _quoted(new) for name, new in names.items()}
    written = _replace_columns(condition, lambda column: columns[id(column)])
    if written is not None and written not in source.conditions:
        source.conditions.append(written)


def _find_owners(condition: exp.Expr, sources: Sequence[_Source]) -> list[tuple[exp.Column, _Source]] | None:
    """Return the columns of a condition with their relations; None if it reads anything else."""
    found = []
    for node in condition.walk():
        if isinstance(
            node, exp.Query | exp.UDTF | exp.AggFunc | exp.Window | exp.Star | exp.Placeholder | exp.Dot
        ):
            return None
        if isinstance(node, exp.Func) and _is_other_than_a_value(node):
            return None
        if isinstance(node, exp.Column):
            owner = _find_owner(node, sources)
            if owner is None:
                return None
            found.append((node, owner))
    return found or None


def is_current(node: exp.Expr) -> bool:
    """Return whether an expression is the time of a statement."""
    return isinstance(node, exp.CurrentTimestamp | exp.CurrentDate) or (
        isinstance(node, exp.Anonymous) and node.name.lower() == "now" and not node.expressions
    )


def _is_other_than_a_value(call: exp.Func) -> bool:
    """Return whether a call gives rows, is an aggregate, or differs in each run by more than its time."""
    if is_current(call):
        return False
    name = call.name if isinstance(call, exp.Anonymous) else call.sql_name()
    gives_rows = isinstance(call, exp.UDTF) or name.lower() == "unnest"
    is_unstable = name.upper().startswith("CURRENT_") or has_unstable_call([name.upper()])
    return gives_rows or is_unstable or name.lower() in AGGREGATES


def _find_owner(column: exp.Column, sources: Sequence[_Source]) -> _Source | None:
    name, table = read_name(column.this), column.args.get("table")
    if column.args.get("db"):
        return None  # a field of a column
    if table is not None:
        owners = [one for one in sources if one.name == read_name(table)]
    elif any(one.columns is None for one in sources):
        return None
    else:
        owners = [one for one in sources if name in (one.columns or ())]
    return owners[0] if len(owners) == 1 and name in (owners[0].columns or ()) else None


def _rejects_nulls(condition: exp.Expr) -> bool:
    """Return whether a condition is not true where all columns in it are NULL."""
    if isinstance(condition, exp.Paren):
        return _rejects_nulls(condition.this)
    if isinstance(condition, exp.And):
        return _rejects_nulls(condition.this) or _rejects_nulls(condition.expression)
    if isinstance(condition, exp.Or):
        return _rejects_nulls(condition.this) and _rejects_nulls(condition.expression)
    tested = condition.this if isinstance(condition, exp.Not) else condition
    if not isinstance(tested, _STRICT):
        return False
    first = tested.this
    operands = [first] if isinstance(tested, exp.In | exp.Between) else [first, tested.expression]
    return any(
        one.find(exp.Column) and all(isinstance(each, _STRICT_OPERANDS) for each in one.walk())
        for one in operands
    )


def _read_below(condition: exp.Expr, select: exp.Select, sources: Sequence[_Source]) -> exp.Expr | None:
    """Return a condition over the outputs of a SELECT as one over what it reads; None if there is none."""
    distinct = select.args.get("distinct")
    if any(select.args.get(key) for key in _ROW_WISE) or (distinct is not None and distinct.args.get("on")):
        return None
    group = select.args.get("group")
    keys = None if group is None else _list_keys(group, select)
    if any(
        isinstance(one, exp.Window) for output in select.expressions for one in without_subqueries(output)
    ):
        return None

    def find_output(column: exp.Expr) -> exp.Expr | None:
        found = _find_output(read_name(column.this), select, sources)
        if found is None or any(isinstance(one, exp.Query) for one in found.walk()):
            return None
        has_aggregates = any(
            isinstance(one, exp.Func) and _is_other_than_a_value(one) for one in found.walk()
        )
        is_below = not has_aggregates if keys is None else found in keys
        return found if is_below else None

    return _replace_columns(condition, find_output)


def _list_keys(group: exp.Group, select: exp.Select) -> list[exp.Expr]:
    """Return the expressions that rows are grouped by; none if there are several sets of them."""
    if any(group.args.get(key) for key in ("rollup", "cube", "grouping_sets", "all", "totals")):
        return []
    by_name = {
        read_name(one.args["alias"]): one.this for one in select.expressions if isinstance(one, exp.Alias)
    }
    keys = []
    for key in group.expressions:
        if (
            isinstance(key, exp.Literal)
            and not key.is_string
            and 1 <= int(key.this) <= len(select.expressions)
        ):
            keys.append(select.expressions[int(key.this) - 1].unalias())
        else:
            keys.append(key)
            if isinstance(key, exp.Column) and not key.table and read_name(key.this) in by_name:
                keys.append(by_name[read_name(key.this)])
    return keys


def _type_outputs(select: exp.Select, sources: Sequence[_Source]) -> Mapping[str, pa.DataType | None] | None:
    """Return the names of the outputs of a SELECT, with types of those that are columns; None if unknown."""
    found: dict[str, pa.DataType | None] = {}
    for output in select.expressions:
        if output.is_star:
            starred = _list_starred(output, sources)
            if starred is None or any(one.columns is None for one in starred):
                return None
            for one in starred:
                found.update(one.columns or {})
            continue
        name, value = _name_output(output), output.unalias()
        if name is None:
            continue
        owner = _find_owner(value, sources) if isinstance(value, exp.Column) else None
        found[name] = None if owner is None else (owner.columns or {}).get(read_name(value.this))
    return found


def _find_output(name: str, select: exp.Select, sources: Sequence[_Source]) -> exp.Expr | None:
    """Return the expression of an output; None if there is none, or several."""
    found: list[exp.Expr] = []
    for output in select.expressions:
        if output.is_star:
            for source in _list_starred(output, sources) or ():
                if source.columns is None:
                    return None
                if name in source.columns:
                    table = exp.to_identifier(source.name, quoted=True)
                    found.append(exp.Column(this=exp.to_identifier(name, quoted=True), table=table))
        elif _name_output(output) == name:
            found.append(output.unalias())
    return found[0] if len(found) == 1 else None


def _list_starred(output: exp.Expr, sources: Sequence[_Source]) -> Sequence[_Source] | None:
    """Return the relations whose columns a star is; None if they are others than those."""
    star = output.this if isinstance(output, exp.Column) else output
    if any(star.args.values()):
        return None
    table = output.args.get("table")
    return [one for one in sources if table is None or one.name == read_name(table)]


def _name_output(output: exp.Expr) -> str | None:
    if isinstance(output, exp.Alias):
        return read_name(output.args["alias"])
    return read_name(output.this) if isinstance(output, exp.Column) else None


def _quoted(name: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True))


def _replace_columns(condition: exp.Expr, find: Callable[[exp.Column], exp.Expr | None]) -> exp.Expr | None:
    """Return a condition with other expressions in the place of its columns; None if one has none."""
    whole = exp.Paren(this=condition.copy())
    pairs = list(zip(condition.find_all(exp.Column), whole.this.find_all(exp.Column), strict=True))
    for column, copied in pairs:
        found = find(column)
        if found is None:
            return None
        copied.replace(found.copy() if isinstance(found, exp.Column) else exp.Paren(this=found.copy()))
    replaced: exp.Expr = whole.this
    return replaced
