"""JSON in texts: operators, functions, casts and tests of SQL/JSON, PostgreSQL, DuckDB and MySQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from sqlglot import exp

from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.planner.sql.forms.calls import fill, put, wrong_count
from lance_gateway.planner.sql.tree.dialect import write_sql
from lance_gateway.planner.sql.tree.tree import Tree

_TYPES: Final = frozenset({exp.DType.JSON, exp.DType.JSONB})
_TEXTS: Final = frozenset({*_TYPES, exp.DType.TEXT, exp.DType.VARCHAR})
_TO_JSON: Final = frozenset({"TO_JSON", "TO_JSONB", "ARRAY_TO_JSON"})
_OBJECTS: Final = frozenset({"JSON_OBJECT", "JSON_BUILD_OBJECT", "JSONB_BUILD_OBJECT"})
_ARRAYS: Final = frozenset({"JSON_ARRAY", "JSON_BUILD_ARRAY", "JSONB_BUILD_ARRAY"})
_OBJECTS_OF_ROWS: Final = frozenset(
    {"JSON_OBJECTAGG", "JSON_OBJECT_AGG", "JSONB_OBJECT_AGG", "JSON_GROUP_OBJECT"}
)
_OF_ROWS: Final = _OBJECTS_OF_ROWS | {"JSON_ARRAYAGG", "JSON_AGG", "JSONB_AGG", "JSON_GROUP_ARRAY"}
_LEAVES_OUT_NULL: Final = frozenset({"JSON_ARRAY", "JSON_ARRAYAGG"})
"""Functions that leave NULL out, as in the standard, unless their call has NULL ON NULL."""
_SETTERS: Final = frozenset({"JSON_SET", "JSON_INSERT", "JSON_REPLACE"})
_CHANGES: Final = frozenset({"JSON_REMOVE", "JSON_MERGE_PATCH", "JSONB_SET"})
_EXTRACTS: Final = frozenset({"JSON_EXTRACT", "JSON_EXTRACT_PATH"})
TYPED: Final = frozenset({"TO_JSON", "JSON_CAST", "JSON_TRY_CAST"})
"""Functions of values of any type, of which the engine has to know which."""
WRITTEN: Final = (
    _SETTERS
    | _CHANGES
    | TYPED
    | {"JSON_EXTRACT", "JSON_EXTRACT_STRING", "JSON_ARRAY_LENGTH", "JSON_TYPE", "JSON_TYPEOF", "JSON_KEYS"}
    | {"JSON_VALID", "JSON_IS", "JSON_KEY"}
)
"""Functions over JSON that remain when these forms are written, which DataFusion calls."""
_READERS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "JSON_VALUE": ("json_extract_string($1)", "json_extract_string($1, $2)"),
        "JSON_EXTRACT_PATH_TEXT": ("json_extract_string($1)", "json_extract_string($1, $2)"),
        "JSON_EXTRACT_PATH": ("json_extract($1)", "json_extract($1, $2)"),
        "JSON_OBJECT_KEYS": ("unnest(json_keys($1))", ""),
        "JSONB_OBJECT_KEYS": ("unnest(json_keys($1))", ""),
        "JSONB_TYPEOF": ("json_typeof($1)", ""),
        "JSONB_ARRAY_LENGTH": ("json_array_length($1)", "json_array_length(json_extract($1, $2))"),
        "JSON_ARRAY_LENGTH": ("", "json_array_length(json_extract($1, $2))"),
        "JSON_TYPE": ("", "json_type(json_extract($1, $2))"),
        "JSON_KEYS": ("", "json_keys(json_extract($1, $2))"),
    }
)
"""Function -> what it is of a text, and of a text and a path; empty if it stays."""
_MAKERS: Final = _TO_JSON | _OBJECTS | _ARRAYS | _SETTERS | _CHANGES | _EXTRACTS
_WRITTEN_AS_CALLS: Final = (
    *(exp.JSONExtract, exp.JSONExtractScalar, exp.ParseJSON),
    *(exp.Cast, exp.Is, exp.Anonymous, exp.Filter, exp.Window),
)
_IS_JSON: Final = "is_json"
"""Mark of expressions that give JSON."""


def json_values(tree: Tree) -> None:
    """Write operators, functions, casts and tests of JSON as functions over texts.

        SELECT j -> 'a' ->> 0 AS x, json_object('id': id, 'l': l), CAST(j AS JSON) FROM t WHERE j IS JSON
    ->  SELECT json_extract_string(json_extract(j, 'a'), '$[0]') AS x, concat('{', concat_ws(',',
        (json_key('id') || ':' || coalesce(to_json(id), 'null')), ..), '}') AS "json_object",
        json_cast(j) AS "j" FROM t WHERE json_is(j, 'value')

    What is JSON stays as it is, and becomes no text within JSON: results of these functions, and casts to
    JSON. The types of other expressions decide: see `planner.plans.forms.json_types`.

    Raises:
        InvalidInputError: a function has other arguments.
        UnsupportedError: a call has a clause that is not supported.
    """
    for node in tree.find_all(*_WRITTEN_AS_CALLS)[::-1]:
        new: exp.Expr | None = None
        name = ""
        match node:
            case exp.JSONExtract() | exp.JSONExtractScalar():
                new, name = _extract(node), tree.find_text(node)
            case exp.Cast() if node.to.this in _TYPES:
                new = fill(f"json_{'try_' * isinstance(node, exp.TryCast)}cast($1)", node.this)
                name = node.this.name if isinstance(node.this, exp.Column) else "json"
            case exp.ParseJSON():
                new, name = fill("json_cast($1)", node.this), "json"
            case exp.Is(expression=exp.JSON()):
                _test(tree, node)
            case exp.Anonymous() | exp.Filter() | exp.Window() if not _is_wrapped(node):
                new, name = _write_call(tree, node), (_find_aggregate(node) or node).name.lower()
        if new is not None:
            new.meta[_IS_JSON] = not isinstance(node, exp.JSONExtractScalar)
            put(tree, node, new, name)


def _is_wrapped(node: exp.Expr) -> bool:
    """Return whether an aggregate has FILTER or OVER, with which it is written."""
    return isinstance(node.parent, exp.Filter | exp.Window) and node.arg_key == "this"


def _find_aggregate(node: exp.Expr) -> exp.Expr | None:
    while isinstance(node, exp.Filter | exp.Window):
        node = node.this
    return node if isinstance(node, exp.Anonymous) and node.name.upper() in _OF_ROWS else None


def _extract(node: exp.JSONExtract | exp.JSONExtractScalar) -> exp.Expr:
    value, path = node.this, node.expression
    if isinstance(value, exp.Anonymous) and value.name == "json_cast":
        (value,) = value.expressions
    number = path.this if isinstance(path, exp.Neg) else path
    if isinstance(number, exp.Literal) and not number.is_string:
        path = exp.Literal.string(f"$[{'#-' if number is not path else ''}{number.name}]")
    is_text = isinstance(node, exp.JSONExtractScalar)
    return fill(f"json_extract{'_string' * is_text}($1, $2)", value, path)


def _test(tree: Tree, test: exp.Is) -> None:
    """Write `x IS [NOT] JSON [kind]`."""
    if test.expression.args.get("with_"):
        what = "IS JSON does not compare keys, so WITH UNIQUE KEYS is not supported"
        raise tree.error(test, what)
    kind = test.expression.this or "value"
    negation = test.parent if isinstance(test.parent, exp.Not) else None
    name = write_sql(negation or test)
    new = fill(f"json_is($1, '{kind.lower()}')", test.this)
    if negation is None:
        put(tree, test, new, name)
    else:
        tree.replace(test, new)
        put(tree, negation, negation.copy(), name)


def _write_call(tree: Tree, node: exp.Expr) -> exp.Expr | None:
    """Return what a call, of an aggregate with its FILTER and OVER, is written as; None if as it is."""
    call = _find_aggregate(node) or node
    name, arguments = call.name.upper(), call.expressions
    if not isinstance(call, exp.Anonymous) or not isinstance(call.this, str):
        return None
    if name in _READERS:
        if not 1 <= len(arguments) <= 2:
            raise wrong_count(tree, call, "a text and a path, as in '$.a.b'")
        template = _READERS[name][len(arguments) - 1]
        return fill(template, *arguments) if template else None
    if name in _TO_JSON:
        if len(arguments) != 1:
            raise wrong_count(tree, call, "one value")
        return _write_value(arguments[0])
    if name in _SETTERS | _CHANGES:
        return _change(tree, call, name)
    if name in _OBJECTS | _ARRAYS | _OF_ROWS:
        _refuse_clauses(tree, call)
        return _aggregate(tree, node, call) if name in _OF_ROWS else _gather(tree, call, name)
    return None


def _refuse_clauses(tree: Tree, call: exp.Expr) -> None:
    name, returned = f"{call.name.lower()}()", call.args.get("returning")
    if returned is not None and returned.this not in _TEXTS:
        what = f"{name} returns text: leave RETURNING out, and cast its result"
        raise tree.error(call, what, UnsupportedError)
    if call.args.get("compares_keys"):
        what = f"{name} does not compare keys: leave WITH UNIQUE KEYS out"
        raise tree.error(call, what, UnsupportedError)


def _write_value(value: exp.Expr) -> exp.Expr:
    """Return the JSON of a value; NULL is that of SQL."""
    if isinstance(value, exp.FormatJson):
        return fill("json_cast($1)", value.this)
    inner = value
    while isinstance(inner, exp.Paren):
        inner = inner.this
    is_json = inner.meta.get(_IS_JSON) or (
        isinstance(inner, exp.Anonymous) and inner.name.upper() in _MAKERS | TYPED
    )
    return fill("$1" if is_json else "to_json($1)", value)


def _gather(tree: Tree, call: exp.Expr, name: str) -> exp.Expr:
    opening, closing = "{}" if name in _OBJECTS else "[]"
    leaves_out_null = call.args.get("leaves_out_null", name in _LEAVES_OUT_NULL)
    if name in _OBJECTS:
        items = [_write_pair(*pair, leaves_out_null) for pair in _list_pairs(tree, call)]
    else:
        items = [_write_item(value, leaves_out_null) for value in call.expressions]
    slots = "".join(f", ${number}" for number in range(1, len(items) + 1))
    listed = f"concat_ws(','{slots})" if items else "''"
    return fill(f"concat('{opening}', {listed}, '{closing}')", *items)


def _write_item(value: exp.Expr, leaves_out_null: bool) -> exp.Expr:  # noqa: FBT001
    return fill("$1" if leaves_out_null else "coalesce($1, 'null')", _write_value(value))


def _write_pair(key: exp.Expr, value: exp.Expr, leaves_out_null: bool) -> exp.Expr:  # noqa: FBT001
    return fill("(json_key($1) || ':' || $2)", key, _write_item(value, leaves_out_null))


def _list_pairs(tree: Tree, call: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr]]:
    """Yield keys with their values, which are written as `k: v` or side by side."""
    places = iter(call.expressions)
    for argument in places:
        if isinstance(argument, exp.JSONKeyValue):
            yield argument.this, argument.expression
        elif (value := next(places, None)) is not None:
            yield argument, value
        else:
            raise wrong_count(tree, call, "a value for each key, as in json_object('a': 1, 'b': 2)")


def _aggregate(tree: Tree, node: exp.Expr, call: exp.Expr) -> exp.Expr:
    """Return texts of JSON that are strung together.

    NULL is the result for no rows, as in PostgreSQL and the standard.
    """
    name, is_distinct, order = call.name.upper(), call.args.get("distinct"), call.args.get("order")
    leaves_out_null = call.args.get("leaves_out_null", name in _LEAVES_OUT_NULL)
    if name in _OBJECTS_OF_ROWS:
        pairs = list(_list_pairs(tree, call))
        if len(pairs) != 1 or is_distinct:
            raise wrong_count(tree, call, "one key and its value")
        item, (opening, closing) = _write_pair(*pairs[0], leaves_out_null), "{}"
    else:
        if len(call.expressions) != 1:
            raise wrong_count(tree, call, "one value")
        item, (opening, closing) = _write_item(call.expressions[0], leaves_out_null), "[]"
    strung = fill(
        "string_agg($1, $2)",
        exp.Distinct(expressions=[item]) if is_distinct else item,
        _with_order(exp.Literal.string(","), order),
    )
    text = fill("CAST($1 AS VARCHAR)", _wrap(node, call, strung))
    if not leaves_out_null:
        return fill(f"('{opening}' || $1 || '{closing}')", text)
    counted = _wrap(node, call, fill("count(*)"))
    return fill(f"CASE WHEN $1 > 0 THEN concat('{opening}', $2, '{closing}') END", counted, text)


def _with_order(value: exp.Expr, order: exp.Expr | None) -> exp.Expr:
    return value if order is None else exp.Order(this=value, expressions=order.copy().expressions)


def _wrap(node: exp.Expr, call: exp.Expr, inner: exp.Expr) -> exp.Expr:
    """Return an aggregate with the FILTER and the OVER that another one has."""
    if node is call:
        return inner
    copy: exp.Expr = node.copy()
    aggregate = _find_aggregate(copy)
    assert aggregate is not None  # noqa: S101 - `node` has one
    aggregate.replace(inner)
    return copy


def _change(tree: Tree, call: exp.Expr, name: str) -> exp.Expr:
    document: exp.Expr
    document, *arguments = call.expressions or [exp.null()]
    if name == "JSONB_SET":
        return _set_at_keys(tree, call, [document, *arguments])
    changes: list[Sequence[exp.Expr]] = [(one,) for one in arguments]
    if name in _SETTERS:
        if not arguments or len(arguments) % 2:
            raise wrong_count(tree, call, "JSON, and a value behind each path, as in json_set(j, '$.a', 1)")
        pairs = zip(arguments[::2], arguments[1::2], strict=True)
        changes = [(path, _write_item(value, leaves_out_null=False)) for path, value in pairs]
    if not changes:
        raise wrong_count(tree, call, "JSON and what changes it")
    for change in changes:
        document = fill(f"{name.lower()}($1, $2{', $3' * (len(change) > 1)})", document, *change)
    return document


def _set_at_keys(tree: Tree, call: exp.Expr, arguments: Sequence[exp.Expr]) -> exp.Expr:
    """Write jsonb_set(j, '{a,0}', value [, creates]) of PostgreSQL, where the value is JSON."""
    if len(arguments) not in {3, 4}:
        raise wrong_count(tree, call, "JSON, a path such as '{a,0}', and JSON")
    if isinstance(arguments[1], exp.Array):
        what = "The path of jsonb_set() is a text, as in '{a,0}'"
        raise tree.error(call, what, UnsupportedError)
    return fill(f"jsonb_set($1, $2, json_cast($3), {'$4' if len(arguments) > 3 else 'true'})", *arguments)
