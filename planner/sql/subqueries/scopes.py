"""Finds out which query each column of a statement belongs to.

Each SELECT gets a number, and each column the number of the SELECT whose relation has it. Columns of queries
around a SELECT are written with their relation. Names of outputs in GROUP BY, HAVING and ORDER BY give way to
what they stand for, but for keys of ORDER BY that are nothing else. Stars below the outermost SELECT give way
to columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from sqlglot import exp

from lance_gateway.planner.sql.subqueries.statements import RewritingError
from lance_gateway.planner.sql.subqueries.trees import (
    OUTPUT,
    OWNER,
    SCOPE,
    Fresh,
    aliased,
    identifier,
    is_series,
    name_of,
    name_unnested,
    queries_in,
    read_unnest,
)
from lance_gateway.planner.sql.tree.queries import without_subqueries
from lance_gateway.planner.sql.tree.tree import Tree

Columns: TypeAlias = "tuple[str, ...] | None"
"""The names of a relation's columns; None if they are not known."""
_Commons: TypeAlias = "Mapping[str, Columns]"


@dataclass(slots=True)
class _Scope:
    """The relations of one SELECT."""

    number: int
    relations: dict[str, Columns] = field(default_factory=dict)
    merged: set[str] = field(default_factory=set)
    """Columns that USING makes one of."""


class Scopes:
    """Reads the columns of one statement.

    Args:
        tree: the statement.
        fresh: gives the numbers.
    """

    def __init__(self, tree: Tree, fresh: Fresh) -> None:
        self._tree = tree
        self.fresh = fresh
        self.columns: dict[tuple[int, str], Columns] = {}
        """Number of a SELECT, and name of one of its relations -> columns."""

    def read(self, query: exp.Query) -> Columns:
        """Read a whole statement.

        Raises:
            RewritingError: a column can't be told to belong to a relation.
        """
        return self._read(query, (), {}, is_inner=False)

    def _read(
        self, query: exp.Expr, around: tuple[_Scope, ...], commons: _Commons, *, is_inner: bool = True
    ) -> Columns:
        commons = self._read_commons(query, around, commons)
        if isinstance(query, exp.Select):
            return self._read_select(query, around, commons, is_inner=is_inner)
        if isinstance(query, exp.SetOperation):
            names = self._read(query.this, around, commons, is_inner=is_inner)
            self._read(query.expression, around, commons, is_inner=is_inner)
        elif isinstance(query, exp.Subquery):
            names = self._read(query.this, around, commons, is_inner=is_inner)
        else:
            msg = f"{type(query).__name__} is not a query that can be read"
            raise RewritingError(msg)
        for key in ("order", "limit", "offset"):
            for column in query.args[key].find_all(exp.Column) if query.args.get(key) else ():
                column.meta[SCOPE] = OUTPUT
        return names

    def _read_commons(self, query: exp.Expr, around: tuple[_Scope, ...], commons: _Commons) -> _Commons:
        clause = query.args.get("with_")
        if clause is None:
            return commons
        found = dict(commons)
        for common in clause.expressions:
            alias = common.args["alias"]
            listed = tuple(name.name for name in alias.columns)
            if clause.args.get("recursive"):
                found[common.alias] = listed or _name_outputs(common.this)
            names = self._read(common.this, around, found)
            found[common.alias] = listed or self._settle_names(common.this, names)
        return found

    def _read_select(
        self, select: exp.Select, around: tuple[_Scope, ...], commons: _Commons, *, is_inner: bool
    ) -> Columns:
        scope = _Scope(self.fresh.number())
        select.meta[SCOPE] = scope.number
        chain = (scope, *around)
        if select.args.get("from_"):
            self._add(select.args["from_"].this, scope, around, commons)
        for join in select.args.get("joins") or ():
            self._add_join(join, scope, around, commons)
        if around or is_inner or any(read_unnest(join.this) for join in select.args.get("joins") or ()):
            self._expand_stars(select, scope)
        for item in select.expressions:
            self._bind(item, chain, commons)
        if select.args.get("where"):
            self._bind(select.args["where"], chain, commons)
        self._bind_keys(select, chain, commons)
        return self._outputs(select)

    def _bind_keys(self, select: exp.Select, chain: tuple[_Scope, ...], commons: _Commons) -> None:
        """Bind the clauses that may name outputs."""
        items = {item.alias: item.this for item in select.expressions if isinstance(item, exp.Alias)}
        for clause in ("group", "having", "qualify", "order"):
            node = select.args.get(clause)
            if node is None:
                continue
            for column in [one for one in without_subqueries(node) if isinstance(one, exp.Column)]:
                item = None if column.table else items.get(column.name)
                if item is None:
                    continue
                if clause == "order" and isinstance(column.parent, exp.Ordered):
                    column.meta[SCOPE] = OUTPUT
                elif not _find(chain[0], column.name) or clause == "order":
                    column.replace(
                        exp.Paren(this=item.copy()) if isinstance(item, exp.Binary) else item.copy()
                    )
                elif clause != "group" and not (isinstance(item, exp.Column) and item.name == column.name):
                    msg = f"{column.name} is a column and an output"
                    raise RewritingError(msg)
            self._bind(node, chain, commons)
        for clause in ("windows", "distinct", "limit", "offset"):
            found = select.args.get(clause) or []
            for node in found if isinstance(found, list) else [found]:
                self._bind(node, chain, commons)

    def _add_join(self, join: exp.Join, scope: _Scope, around: tuple[_Scope, ...], commons: _Commons) -> None:
        before = dict(scope.relations)
        self._add(join.this, scope, around, commons)
        for name in join.args.get("using") or ():
            scope.merged.add(name.name)
        if join.method == "NATURAL":
            for name, columns in scope.relations.items():
                if name not in before and columns:
                    scope.merged.update(
                        one for one in columns if any(one in (old or ()) for old in before.values())
                    )
        if join.args.get("on"):
            self._bind(join.args["on"], (scope, *around), commons)
        if join.kind.endswith((" SEMI", " ANTI")):
            hidden = [name for name in scope.relations if (name in before) == join.kind.startswith("RIGHT")]
            for name in hidden:
                del scope.relations[name], self.columns[scope.number, name]

    def _add(self, item: exp.Expr, scope: _Scope, around: tuple[_Scope, ...], commons: _Commons) -> None:
        """Add a relation of a FROM clause."""
        if isinstance(item, exp.Subquery) and not isinstance(item.this, exp.Query):
            self._add(item.this, scope, around, commons)  # joins in brackets
            return
        columns = self._read_relation(item, (scope, *around), commons)
        alias = item.args.get("alias")
        listed = tuple(name.name for name in alias.columns) if isinstance(alias, exp.TableAlias) else ()
        name = item.alias_or_name if isinstance(item, exp.Table) else item.alias
        if name in scope.relations:
            msg = f"several relations have the name {name!r}"
            raise RewritingError(msg)
        if listed and columns:
            listed += columns[len(listed) :]
        scope.relations[name] = self.columns[scope.number, name] = listed or columns
        for join in item.args.get("joins") or ():
            self._add_join(join, scope, around, commons)

    def _read_relation(self, item: exp.Expr, chain: tuple[_Scope, ...], commons: _Commons) -> Columns:
        columns: Columns = None
        if isinstance(item, exp.Table):
            columns = self._columns_of_table(item, commons)
            for argument in item.this.expressions if isinstance(item.this, exp.Anonymous) else ():
                self._bind(argument, chain, commons)
        elif isinstance(item, exp.Subquery):
            columns = self._settle_names(item.this, self._read(item.this, chain[1:], commons))
        elif isinstance(item, exp.Lateral) and isinstance(item.this, exp.Subquery):
            columns = self._read(item.this.this, chain, commons)
        elif isinstance(item, exp.Lateral | exp.Unnest):
            columns = name_unnested(item)
            self._bind(item, chain, commons)
            if not item.alias:
                item.set("alias", exp.TableAlias(this=identifier(columns[0])))
        elif isinstance(item, exp.Values):
            self._bind(item, chain, commons)
        else:
            msg = f"{type(item).__name__} is not a relation that can be read"
            raise RewritingError(msg)
        return columns

    def _settle_names(self, query: exp.Query, names: Columns) -> Columns:
        """Give the outputs of a relation that have no names those by which others may read them."""
        first: exp.Expr = query
        while isinstance(first, exp.SetOperation | exp.Subquery):
            first = first.this
        if names is None or "" not in names or len(first.expressions) != len(names):
            return names
        fields = self._tree.find_outputs(query)
        for item, output in zip(first.expressions, fields, strict=False):
            if not name_of(item):
                item.replace(aliased(item.copy(), output.name))
        return tuple(one.name for one in fields) or names

    def _columns_of_table(self, item: exp.Table, commons: _Commons) -> Columns:
        if is_series(item):
            if not item.alias:
                item.set("alias", exp.TableAlias(this=identifier(item.this.name.lower())))
            return ("value",)
        if not item.db and item.name in commons:
            return commons[item.name]
        table = exp.Table(**{**item.copy().args, "alias": None, "joins": None})
        return tuple(one.name for one in self._tree.find_columns(table)) or None

    def _bind(self, node: exp.Expr, chain: tuple[_Scope, ...], commons: _Commons) -> None:
        for query in list(queries_in(node)):
            self._read(query, chain, commons)
        for column in [one for one in without_subqueries(node) if isinstance(one, exp.Column)]:
            if not isinstance(column.this, exp.Star) and column.meta.get(SCOPE) != OUTPUT:
                _bind_column(_divide_field(column, chain), chain)

    def _outputs(self, select: exp.Select) -> Columns:
        names: list[str] = []
        for item in select.expressions:
            if isinstance(item, exp.Star) or (
                isinstance(item, exp.Column) and isinstance(item.this, exp.Star)
            ):
                owner = item.table if isinstance(item, exp.Column) else None
                listed = self.expand_star(select, owner)
                if listed is None:
                    return None
                star = item if isinstance(item, exp.Star) else item.this
                left_out = {one.name for one in star.args.get("except_") or ()}
                names += [name for name in listed if name not in left_out]
            else:
                names.append(name_of(item))
        return tuple(names)

    def _expand_stars(self, select: exp.Select, scope: _Scope) -> None:
        """Put columns in the place of stars whose columns are known."""
        for item in list(select.expressions):
            star = item.this if isinstance(item, exp.Column) else item
            if not isinstance(star, exp.Star) or star.args.get("replace") or star.args.get("rename"):
                continue
            owners = [item.table] if isinstance(item, exp.Column) else list(scope.relations)
            listed = [scope.relations.get(owner) for owner in owners]
            if not owners or None in listed:
                continue
            left_out = {one.name for one in star.args.get("except_") or ()}
            columns: dict[tuple[str | None, str], exp.Column] = {}
            for owner, names in zip(owners, listed, strict=True):
                for name in names or ():
                    table = None if name in scope.merged else owner
                    if name not in left_out:
                        relation = identifier(table) if table else None
                        columns[table, name] = exp.Column(this=identifier(name), table=relation)
            place = select.expressions.index(item)
            items = select.expressions
            select.set("expressions", [*items[:place], *columns.values(), *items[place + 1 :]])

    def expand_star(self, select: exp.Select, owner: str | None) -> Columns:
        """Return the columns of a relation of a SELECT, or of all; those that USING merges come once."""
        names: list[str] = []
        for (number, relation), columns in self.columns.items():
            if number == select.meta[SCOPE] and owner in {None, relation}:
                if columns is None:
                    return None
                names += columns
        return tuple(dict.fromkeys(names))


def _name_outputs(query: exp.Expr) -> Columns:
    while isinstance(query, exp.SetOperation | exp.Subquery):
        query = query.this
    names = tuple(name_of(item) for item in query.expressions)
    stars = (item.this if isinstance(item, exp.Column) else item for item in query.expressions)
    return None if any(isinstance(star, exp.Star) for star in stars) else names


def _find(scope: _Scope, name: str) -> list[str]:
    return [relation for relation, columns in scope.relations.items() if columns and name in columns]


def _divide_field(column: exp.Column, chain: tuple[_Scope, ...]) -> exp.Column:
    """Return the column whose field a dotted name is, and put the field in its place; or the name itself."""
    if not column.table:
        return column
    owners = [scope.relations[column.table] for scope in chain if column.table in scope.relations]
    if owners:
        # The elements of a list have the name of their relation: FROM UNNEST(l) AS item.
        if owners[0] != (column.table,) or column.name == column.table:
            return column
        owner: exp.Identifier | None = identifier(column.table)
    elif any(_find(scope, column.table) for scope in chain):
        owner = identifier(column.db) if column.db else None
    else:
        return column
    whole = exp.Column(this=identifier(column.table), table=owner)
    field = exp.Anonymous(this="get_field", expressions=[whole, exp.Literal.string(column.name)])
    is_output = isinstance(column.parent, exp.Select) and column.arg_key == "expressions"
    column.replace(aliased(field, column.name) if is_output else field)
    return whole


def _bind_column(column: exp.Column, chain: tuple[_Scope, ...]) -> None:
    """Tell a column which scope and relation it belongs to."""
    name, table = column.name, column.table
    for depth, scope in enumerate(chain):
        if table:
            owners = [table] if table in scope.relations else []
            columns = scope.relations.get(table)
            if owners and columns is not None and name not in columns:
                msg = f"{table} has no column {name}"
                raise RewritingError(msg)
        else:
            owners = _find(scope, name)
            if not owners and None in scope.relations.values():
                msg = f"which relation has the column {name} is not known: write {name} with its relation"
                raise RewritingError(msg)
        if not owners:
            continue
        if len(owners) > 1 and name not in scope.merged:
            msg = f"several relations have a column {name}"
            raise RewritingError(msg)
        column.meta[SCOPE], column.meta[OWNER] = scope.number, owners[0]
        column.set("db", None)
        column.set("catalog", None)
        if depth:
            column.set("table", identifier(owners[0]))
        return
    msg = f"no relation has the column {table + '.' if table else ''}{name}"
    raise RewritingError(msg)
