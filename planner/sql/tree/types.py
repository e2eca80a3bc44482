"""Types of expressions that follow from the types of columns, without a plan of the statement.

A column has the type that its table or its subquery gives it. An operator and a function have a type that
follows from those of their operands: DataFusion is asked for each combination once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

import pyarrow as pa
from sqlglot import exp

from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.planner.sql.tree.dialect import write_sql
from lance_gateway.planner.sql.tree.queries import list_visible
from lance_gateway.planner.sql.type_names import name_type

Operations: TypeAlias = MutableMapping[Hashable, pa.DataType]
"""Operation, and what its operands are -> type of the result; the same in all statements."""
Output: TypeAlias = tuple[str | None, pa.DataType | None]
"""Name and type of a column; None for one that is not known."""
Outputs: TypeAlias = Sequence[Output]
_MOST_OPERATIONS: Final = 8192
_OPERATORS: Final = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg, exp.DPipe)
_CONDITIONS: Final = (exp.Predicate, exp.Connector, exp.Not, exp.Boolean)
_PLAIN_TYPES: Final[Mapping[type[exp.Expr], pa.DataType]] = {
    exp.Null: pa.null(),
    exp.HexString: pa.binary(),
    exp.Interval: pa.month_day_nano_interval(),
}
_CASTS: Final = frozenset({"ARROW_CAST", "ARROW_TRY_CAST"})
_VALUELESS: Final = frozenset(
    {"ABS", "AVG", "COALESCE", "COUNT", "GREATEST", "LEAST", "MAX", "MIN", "NULLIF", "SUM"}
)
"""Functions whose type follows from the types of their arguments, and not from constants among them."""
_CONSTANTS: Final = (exp.Literal, exp.Null, exp.Boolean)
_INT64_END, _UINT64_END = 1 << 63, 1 << 64


class Types:
    """Finds types of expressions in a query that changes.

    Args:
        schemas: name of a table -> its columns.
        parameters: name of a parameter -> its type.
        plan: returns the schema of a query's result; None if it can't be planned.
        operations: what is known of them.
    """

    def __init__(
        self,
        schemas: Mapping[str, pa.Schema],
        parameters: Mapping[str, pa.DataType],
        plan: Callable[[str], pa.Schema | None],
        operations: Operations,
    ) -> None:
        self._schemas = schemas
        self._parameters = parameters
        self._plan = plan
        self._operations = operations
        # The nodes are kept, too: another one could get the identity of one that is gone.
        self._kinds: dict[int, tuple[exp.Expr, pa.DataType | None]] = {}
        self._outputs: dict[int, tuple[exp.Expr, Outputs | None]] = {}

    def forget(self, node: exp.Expr) -> None:
        """Forget what depends on an expression that is about to change."""
        above: exp.Expr | None = node
        while above is not None:
            self._kinds.pop(id(above), None)
            self._outputs.pop(id(above), None)
            if isinstance(above, exp.Query | exp.Table) and above.parent is not None:
                self.clear()
                return
            above = above.parent

    def clear(self) -> None:
        """Forget all types."""
        self._kinds.clear()
        self._outputs.clear()

    def find(self, node: exp.Expr) -> pa.DataType | None:
        """Return the type of an expression; None if it is not known without a plan of the statement."""
        known = self._kinds.get(id(node))
        if known is None:
            known = self._kinds[id(node)] = node, self._find(node)
        return known[1]

    def find_outputs(self, query: exp.Expr) -> Outputs | None:
        """Return the columns of a query, a table or a subquery; None if they are not known."""
        known = self._outputs.get(id(query))
        if known is None:
            self._outputs[id(query)] = query, None  # for a query that reads itself
            known = self._outputs[id(query)] = query, self._list_outputs(query)
        return known[1]

    def _find(self, node: exp.Expr) -> pa.DataType | None:
        match node:
            case exp.Column():
                return self._find_column(node)
            case exp.Literal():
                return _find_literal_type(node)
            case exp.Parameter():
                return self._parameters.get(node.name)
            case exp.Paren() | exp.Alias():
                return self.find(node.this)
            case exp.Subquery() | exp.Select():
                outputs = self.find_outputs(node)
                return outputs[0][1] if outputs is not None and len(outputs) == 1 else None
            case exp.Bracket() if len(node.expressions) == 1:
                return _find_element(self.find(node.this), node.expressions[0])
        is_quantifier = isinstance(node, exp.SubqueryPredicate) and not isinstance(node, exp.Exists)
        if isinstance(node, _CONDITIONS) and not is_quantifier:
            return pa.bool_()
        return _PLAIN_TYPES.get(type(node)) or self._find_computed(node)

    def _find_computed(self, node: exp.Expr) -> pa.DataType | None:
        match node:
            case exp.Cast():
                return self._find_operation(node, [exp.null()], _identify_type(node.to))
            case exp.Case():
                results = [branch.args["true"] for branch in node.args["ifs"]]
                default = node.args.get("default")
                return self._find_operation(node, results if default is None else [*results, default])
            case exp.Anonymous():
                name, operands = node.name.upper(), node.expressions
                given = [exp.null(), *operands[1:]] if name in _CASTS else operands
                return self._find_operation(node, given, name)
            case exp.Window(this=exp.Anonymous() as call):
                return self._find_operation(node, call.expressions, call.name.upper())
        is_operator = isinstance(node, _OPERATORS)
        return self._find_operation(node, list(node.iter_expressions())) if is_operator else None

    def _find_operation(
        self, node: exp.Expr, operands: Sequence[exp.Expr], *rest: Hashable
    ) -> pa.DataType | None:
        """Return the type of an operation; its operands may be constants in the place of others.

        Args:
            node: the operation.
            operands: on which its type depends.
            rest: on which its type depends, too.
        """
        given: list[pa.DataType | str] = []
        is_call = isinstance(node, exp.Anonymous | exp.Window)
        by_value = isinstance(node, exp.Cast) or (is_call and _VALUELESS.isdisjoint(rest))
        for operand in operands:
            if isinstance(operand, exp.Star) or (by_value and isinstance(operand, _CONSTANTS)):
                given.append(write_sql(operand))
                continue
            kind = self.find(operand)
            is_constant = by_value and operand.find(exp.Column) is None
            if kind is None or is_constant or pa.types.is_nested(kind) or pa.types.is_dictionary(kind):
                return None
            given.append(kind)
        key = (type(node), *rest, *given)
        found = self._operations.get(key)
        if found is None:
            with suppress(UnsupportedError):  # a type that has no name
                schema = self._plan(_write_probe(node, given))
                found = None if schema is None else schema.field(0).type
        if found is not None:
            if len(self._operations) >= _MOST_OPERATIONS:
                self._operations.clear()
            self._operations[key] = found
        return found

    def _find_column(self, column: exp.Column) -> pa.DataType | None:
        """Return the type of a column, or of a field of one, as in `t.point.x`."""
        parts = [_read_name(part) for part in column.parts]
        query = column.find_ancestor(exp.Select, exp.SetOperation)
        while isinstance(query, exp.Select):
            sources = [(_read_alias(source), self.find_outputs(source)) for source in _list_sources(query)]
            named = [outputs for alias, outputs in sources if len(parts) > 1 and alias == parts[0]]
            names = parts[1:] if named else parts
            columns: list[Output] = []
            for outputs in named or [outputs for _, outputs in sources]:
                if outputs is None:
                    return None
                columns += outputs
            kinds = {kind for name, kind in columns if name == names[0]}
            if kinds:
                return _find_field(kinds.pop(), names[1:]) if len(kinds) == 1 else None
            # The query around it may have the column.
            query = query.find_ancestor(exp.Select, exp.SetOperation)
        return None

    def _list_outputs(self, query: exp.Expr) -> Outputs | None:
        match query:
            case exp.Table():
                outputs = self._list_table(query)
            case exp.Subquery() | exp.CTE() if not query.args.get("joins"):
                outputs = self.find_outputs(query.this)
            case exp.SetOperation() if not query.args.get("by_name"):
                left, right = self.find_outputs(query.this), self.find_outputs(query.expression)
                if left is None or right is None or len(left) != len(right):
                    return None
                pairs = zip(left, right, strict=True)
                outputs = [(name, kind if kind == other else None) for (name, kind), (_, other) in pairs]
            case exp.Select():
                outputs = self._list_items(query)
            case _:
                return None
        alias = query.args.get("alias")
        names = alias.args.get("columns") if isinstance(alias, exp.TableAlias) else None
        if outputs is None or not names:
            return outputs
        kinds = [kind for _, kind in outputs]
        return list(zip(map(_read_name, names), kinds, strict=True)) if len(names) == len(kinds) else None

    def _list_table(self, table: exp.Table) -> Outputs | None:
        if not isinstance(table.this, exp.Identifier) or any(map(table.args.get, ("db", "joins"))):
            return None
        for one in list_visible(table):
            if _read_name(one.args["alias"].this) == _read_name(table.this):
                is_recursive = one.parent is not None and one.parent.args.get("recursive")
                return None if is_recursive else self.find_outputs(one)
        schema = self._schemas.get(table.name)
        if schema is None:
            return None
        return [(one.name, pa.string() if one.type.equals(pa.uuid()) else one.type) for one in schema]

    def _list_items(self, select: exp.Select) -> Outputs | None:
        found: list[Output] = []
        for item in select.expressions:
            if item.is_star:
                outputs = self._expand_star(select, item)
                if outputs is None:
                    return None
                found += outputs
            else:
                named = item.args["alias"] if isinstance(item, exp.Alias) else item.this
                is_named = isinstance(item, exp.Alias | exp.Column)
                found.append((_read_name(named) if is_named else None, self.find(item)))
        return found

    def _expand_star(self, select: exp.Select, star: exp.Expr) -> Outputs | None:
        star = star.this if isinstance(star, exp.Column) else star
        qualifier = star.parent.args.get("table") if isinstance(star.parent, exp.Column) else None
        joins = select.args.get("joins") or ()
        if not isinstance(star, exp.Star) or any(star.args.values()):
            return None
        if qualifier is None and any(
            join.args.get("using") or join.method or join.kind in {"SEMI", "ANTI"} for join in joins
        ):
            return None
        found: list[Output] = []
        for source in _list_sources(select):
            if qualifier is None or _read_alias(source) == _read_name(qualifier):
                outputs = self.find_outputs(source)
                if outputs is None:
                    return None
                found += outputs
        return found


def _find_literal_type(literal: exp.Literal) -> pa.DataType:
    if literal.is_string:
        return pa.string()
    if not literal.name.isdecimal() or (value := int(literal.name)) >= _UINT64_END:
        return pa.float64()
    return pa.int64() if value < _INT64_END else pa.uint64()


def _identify_type(target: exp.DataType) -> Hashable:
    """Return what is equal for equal types."""
    is_named = isinstance(target.this, exp.DType) and target.this is not exp.DType.USERDEFINED
    if is_named and not target.args.get("nested"):
        return (target.this, *(one.name for one in target.expressions))
    return write_sql(target)


def _write_probe(node: exp.Expr, operands: Sequence[pa.DataType | str]) -> str:
    """Write a query of an operation on values of some types, which are no constants, and on constants."""
    kinds = [operand for operand in operands if isinstance(operand, pa.DataType)]
    names = iter(f"c{at}" for at in range(len(kinds)))
    texts = [operand if isinstance(operand, str) else next(names) for operand in operands]
    match node:
        case exp.Case():
            branches = [f"WHEN random() > 0.5 THEN {text}" for text in texts]
            sql = f"SELECT CASE {' '.join(branches)} END"
        case exp.Anonymous():
            sql = f"SELECT {node.name}({', '.join(texts)})"
        case exp.Window():
            sql = f"SELECT {node.this.name}({', '.join(texts)}) OVER (ORDER BY random())"
        case _:
            shell = node.copy()
            for key, text in zip(("this", "expression"), texts, strict=False):
                shell.set(key, exp.null() if text == "NULL" else exp.column(text))
            sql = f"SELECT {write_sql(shell)}"
    if not kinds:
        return sql
    row = ", ".join(f"arrow_cast(NULL, '{name_type(kind)}')" for kind in kinds)
    columns = ", ".join(f"c{at}" for at in range(len(kinds)))
    return f"{sql} FROM (VALUES ({row}), ({row})) AS x({columns})"


def _list_sources(select: exp.Select) -> Iterator[exp.Expr]:
    if (from_ := select.args.get("from_")) is not None:
        yield from_.this
    yield from (join.this for join in select.args.get("joins") or ())
    yield from select.args.get("laterals") or ()


def _find_field(kind: pa.DataType | None, names: Sequence[str]) -> pa.DataType | None:
    """Return the type of a field of a struct, or of the struct itself if no field is named."""
    for name in names:
        kind = kind.field(name).type if kind is not None and _has_field(kind, name) else None
    return kind


def _has_field(kind: pa.DataType, name: str) -> bool:
    return bool(pa.types.is_struct(kind) and kind.get_field_index(name) >= 0)


def _find_element(kind: pa.DataType | None, key: exp.Expr) -> pa.DataType | None:
    """Return the type of `x[key]`."""
    if kind is None or isinstance(key, exp.Slice):
        return None
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return kind.value_type
    return _find_field(kind, [key.name]) if key.is_string else None


def _read_alias(source: exp.Expr) -> str:
    alias = source.args.get("alias")
    named = alias.this if isinstance(alias, exp.TableAlias) else source.this
    return _read_name(named) if isinstance(named, exp.Identifier) else ""


def _read_name(identifier: exp.Expr) -> str:
    """Return a name as DataFusion takes it."""
    return identifier.name if identifier.args.get("quoted") else identifier.name.lower()
