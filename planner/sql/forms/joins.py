"""Joins: semi joins without a side, queries that begin with FROM, and the columns of USING."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from lance_gateway.memwal.errors import LanceGatewayError, UnsupportedError
from lance_gateway.planner.sql.text.tokens import fold
from lance_gateway.planner.sql.tree.tree import Tree, read_name

_MERGING: Final = frozenset({"RIGHT", "FULL"})
"""Joins with rows that have no partner on the left."""
_ONE_SIDED: Final = frozenset({"SEMI", "ANTI"})
"""Joins that have no columns of the right."""
_CLAUSES: Final = ("where", "group", "having", "qualify", "windows")


def columns_of_from(tree: Tree) -> None:
    """Select all columns where a query that begins with FROM has no SELECT.

        FROM t WHERE n > 0
    ->  SELECT * FROM t WHERE n > 0
    """
    for star in tree.find_all(exp.Star):
        # sqlglot reads it so, and VALUES too; no * that is written is at the beginning of a text.
        source = star.parent and star.parent.args.get("from_")
        if star.meta.get("start") == 0 and source and not isinstance(source.this, exp.Values):
            tree.note_change()


def sides_of_joins(tree: Tree) -> None:
    """Write the side of semi and anti joins.

        SELECT a.id FROM a SEMI JOIN b ON a.id = b.id
    ->  SELECT a.id FROM a LEFT SEMI JOIN b ON a.id = b.id
    """
    for join in tree.find_all(exp.Join):
        if join.kind in _ONE_SIDED and not join.side and not join.method:
            join.set("side", "LEFT")
            tree.note_change()


def merged_columns(tree: Tree) -> None:
    """Write columns of USING by the side that has them; DataFusion takes the relation whose name is first.

        SELECT id, n FROM t FULL JOIN u USING (id)
    ->  SELECT coalesce("t"."id", "u"."id") AS "id", n FROM t FULL JOIN u USING (id)

        SELECT * FROM t LEFT JOIN u USING (id) WHERE id > 1
    ->  SELECT "t".*, "u".* EXCLUDE ("id") FROM t LEFT JOIN u USING (id) WHERE "t"."id" > 1

    Raises:
        UnsupportedError: the sides can't be determined.
    """
    for join in tree.find_all(exp.Join):
        if join.args.get("using") and not isinstance(join.parent, exp.Select) and _may_be_wrong(join):
            raise _refuse(tree, join)
    for select in tree.find_all(exp.Select):
        if any(join.args.get("using") for join in select.args.get("joins") or ()):
            _Merging(tree, select).write()


def _may_be_wrong(join: exp.Join) -> bool:
    """Return whether a SELECT may read columns of USING, of a join in brackets, from the wrong side."""
    select = join.parent_select
    if select is None or not (join.side in _MERGING or join.side == "LEFT") or join.kind in _ONE_SIDED:
        return False
    names = {read_name(one) for one in join.args["using"]}
    if any(isinstance(one, exp.Star) for one in select.expressions):
        return True
    columns = (column for column in select.find_all(exp.Column) if not column.table)
    return join.side in _MERGING and any(read_name(column.this) in names for column in columns)


@dataclass(frozen=True, slots=True)
class _Relation:
    """A relation of a FROM clause.

    Attributes:
        begins_chain: whether it is the first one of joins.
        name: None if it has none.
        kind: of the join before it: its side, SEMI, ANTI, or NATURAL for all natural ones.
        names: columns of the USING behind it.
        node: the relation, or its join.
    """

    begins_chain: bool
    name: str | None
    kind: str
    names: Sequence[str]
    node: exp.Expr


class _Merging:
    """The merged columns of one SELECT."""

    def __init__(self, tree: Tree, select: exp.Select) -> None:
        self._tree = tree
        self._select = select
        self._relations = list(_list_relations(select))
        self._merged: dict[str, exp.Expr] = {}
        """Name -> value that is not the column of one relation."""
        self._values = self._find_values()

    def _find_values(self) -> dict[str, exp.Expr | None]:
        """Return the name of each column of a USING -> its value; None if it can't be determined."""
        values: dict[str, exp.Expr | None] = {}
        left: list[str | None] = []
        for one in self._relations:
            left = [] if one.begins_chain else left
            for name in one.names if one.kind not in _ONE_SIDED else ():
                value = values.get(name, _column(name, left[0]) if len(left) == 1 and left[0] else None)
                if name in self._merged:
                    raise _refuse(self._tree, one.node)
                if one.kind in _MERGING:
                    if name in values or value is None or one.name is None:
                        raise _refuse(self._tree, one.node)
                    right = _column(name, one.name)
                    value = right if one.kind == "RIGHT" else _coalesce(value, right)
                    self._merged[name] = value
                values[name] = value
            if one.kind not in _ONE_SIDED:
                left.append(one.name)
        return values

    def write(self) -> None:
        """Write the sides of the columns."""
        if not self._values:
            return
        self._tree.note_change()
        select = self._select
        for join in select.args["joins"]:
            # The value may have columns of relations that are joined later.
            columns = self._find_columns(join.args.get("on"))
            if any(read_name(column.this) in self._merged for column in columns):
                raise _refuse(self._tree, join)
        for clause in _CLAUSES:
            self._write_columns(select.args.get(clause))
        outputs: set[str] = set()
        written: list[exp.Expr] = []
        for item in select.expressions:
            if isinstance(item, exp.Star):
                outputs.update(self._values)
                written += self._write_star(item)
                continue
            if isinstance(item, exp.Alias):
                outputs.add(read_name(item.args["alias"]))
            is_bare = isinstance(item, exp.Column) and not item.table
            value = self._values.get(read_name(item.this)) if is_bare else None
            if is_bare and not item.is_star:
                outputs.add(read_name(item.this))
            if value is not None:
                item = exp.alias_(value.copy(), read_name(item.this), quoted=True)  # noqa: PLW2901 - the output
            else:
                self._write_columns(item)
            written.append(item)
        distinct = select.args.get("distinct")
        compared = distinct.args.get("on") if distinct is not None else None
        self._write_columns(compared)
        # In ORDER BY, the name of an output means the output. In DISTINCT ON, DataFusion compares texts.
        self._write_columns(select.args.get("order"), without=frozenset() if compared else frozenset(outputs))
        select.set("expressions", written)

    def _find_columns(self, part: exp.Expr | Sequence[exp.Expr] | None) -> Iterator[exp.Column]:
        """Yield the columns without a relation, those of subqueries excepted."""
        for one in part if isinstance(part, list) else [part] if isinstance(part, exp.Expr) else ():
            columns = list(one.find_all(exp.Column))
            yield from (each for each in columns if not each.table and each.parent_select is self._select)

    def _write_columns(
        self, part: exp.Expr | Sequence[exp.Expr] | None, without: frozenset[str] = frozenset()
    ) -> None:
        for column in self._find_columns(part):
            name = read_name(column.this)
            value = self._values.get(name) if name not in without else None
            if value is not None:
                column.replace(value.copy())

    def _write_star(self, star: exp.Star) -> Sequence[exp.Expr]:
        if star.args.get("replace") or star.args.get("rename"):
            raise _refuse(self._tree, star)
        left_out = {read_name(one) for one in star.args.get("except_") or ()}
        kept = {name: value for name, value in self._values.items() if name not in left_out}
        is_told = not any(one.name is None or one.kind == "NATURAL" for one in self._relations)
        if is_told and not left_out:
            return list(self._write_stars())
        if not all(kept.values()):
            raise _refuse(self._tree, star)
        shown = [exp.alias_(value.copy(), name, quoted=True) for name, value in kept.items() if value]
        star.set("replace", shown or None)
        return [star]

    def _write_stars(self) -> Iterator[exp.Expr]:
        """Yield the star of each relation, with the columns of USING where those of the left are."""
        for one in self._relations:
            if one.kind in _ONE_SIDED or one.name is None:
                continue
            merged = self._merged.items() if one.begins_chain else ()
            star = exp.Star(
                except_=[exp.to_identifier(name, quoted=True) for name in one.names] or None,
                replace=[exp.alias_(value.copy(), name, quoted=True) for name, value in merged] or None,
            )
            yield exp.Column(this=star, table=exp.to_identifier(one.name, quoted=True))


def _list_relations(select: exp.Select) -> Iterator[_Relation]:
    first = select.args["from_"].this
    yield _Relation(begins_chain=True, name=_find_name(first), kind="", names=(), node=select)
    for join in select.args["joins"]:
        names = [read_name(one) for one in join.args.get("using") or ()]
        parts = (join.method, join.side, join.kind)
        is_chained = any(parts) or bool(names) or join.args.get("on") is not None
        kind = "NATURAL" if join.method else join.kind if join.kind in _ONE_SIDED else join.side
        yield _Relation(not is_chained, _find_name(join.this), kind, names, join)


def _find_name(relation: exp.Expr) -> str | None:
    """Return the alias of a relation, or the name of a table or a function; None if it has none."""
    alias = relation.args.get("alias")
    if alias is not None:
        return read_name(alias.this) if alias.this else None
    if not isinstance(relation, exp.Table):
        return None
    if isinstance(relation.this, exp.Func):
        return fold(relation.this.name)
    return read_name(relation.this)


def _column(name: str, relation: str) -> exp.Column:
    return exp.Column(
        this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(relation, quoted=True)
    )


def _coalesce(*values: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this="coalesce", expressions=[value.copy() for value in values])


def _refuse(tree: Tree, node: exp.Expr) -> LanceGatewayError:
    return tree.error(
        node,
        "USING of a RIGHT or FULL JOIN beside other joins, or of relations in brackets or without a name, is "
        "not supported: write ON, and coalesce(a.k, b.k) for its column",
        UnsupportedError,
    )
