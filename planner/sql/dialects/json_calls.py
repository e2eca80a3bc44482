"""Translates functions over JSON, as far as the dialects mean the same by them.

    mysql       JSON_ARRAY(a, b), j ->> '$.a'    json_array(a, b NULL ON NULL), json_extract_string(j, '$.a')
    bigquery    TO_JSON_STRING(x)                coalesce(to_json(x), 'null')
    trino       CAST(x AS JSON)                  to_json(x)

Where a dialect reads or leaves out other values than the functions here, the call is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from sqlglot import exp

from lance_gateway.planner.sql.dialects.build import Rule, call, native, raw
from lance_gateway.planner.sql.dialects.source import DialectSource

_KEEPS_NULL: Final = frozenset({"mysql", "duckdb", "bigquery"})
"""Dialects whose arrays have null for NULL; the standard leaves it out."""
_READS_TEXTS: Final = frozenset({"mysql", "duckdb", "spark"})
"""Dialects that read any text as JSON, and give what is not a scalar as JSON."""
_ARRAYS: Final = frozenset({"JSON_ARRAY", "JSON_ARRAYAGG"})


def _object(function: str) -> Rule:
    def translate(node: exp.Expr, source: DialectSource) -> exp.Expr:
        if any(node.args.get(name) for name in ("unique_keys", "return_type", "encoding")):
            source.refuse(node, f"{function.upper()} with RETURNING or UNIQUE KEYS is not supported")
        pairs = node.expressions
        if not all(isinstance(pair, exp.JSONKeyValue) for pair in pairs):
            source.refuse(node, f"{function.upper()} of these arguments is not supported")
        texts = ", ".join(f"{native(pair.this)} VALUE {native(pair.expression)}" for pair in pairs)
        handling = node.args.get("null_handling") or "NULL ON NULL"
        return raw(f"{function}({texts} {handling})" if texts else f"{function}()")

    return translate


def _array(node: exp.Expr, source: DialectSource) -> exp.Expr:
    handling = node.args.get("null_handling") or (
        "NULL ON NULL" if source.dialect in _KEEPS_NULL else "ABSENT ON NULL"
    )
    texts = ", ".join(map(native, node.expressions))
    return raw(f"json_array({texts} {handling})" if texts else "json_array()")


def _function(node: exp.Expr, source: DialectSource) -> exp.Expr | None:
    """Translate a function that sqlglot does not know by a node of its own."""
    name = node.name.upper()
    if name not in _ARRAYS or source.dialect not in _KEEPS_NULL:
        return None
    return raw(f"{name.lower()}({', '.join(map(native, node.expressions))} NULL ON NULL)")


def _extract(function: str) -> Rule:
    def translate(node: exp.Expr, source: DialectSource) -> exp.Expr:
        path = node.expression
        if source.dialect not in _READS_TEXTS or not isinstance(path, exp.JSONPath):
            source.refuse(node, "this function of JSON is not supported: choose the dialect postgres for it")
        steps = ["$"]
        for step in path.expressions[1:]:
            if isinstance(step, exp.JSONPathKey) and isinstance(step.this, str):
                steps.append('."' + step.this.replace("\\", "\\\\").replace('"', '\\"') + '"')
            elif isinstance(step, exp.JSONPathSubscript) and isinstance(step.this, int) and step.this >= 0:
                steps.append(f"[{step.this}]")
            else:
                source.refuse(node, "a path of JSON with these steps is not supported")
        return call(function, node.this, exp.Literal.string("".join(steps)))

    return translate


def _text_of_json(node: exp.Expr, source: DialectSource) -> exp.Expr:
    if source.dialect != "bigquery" or node.args.get("options"):
        source.refuse(node, "TO_JSON of this dialect is not supported: choose the dialect postgres for it")
    return raw(f"coalesce(to_json({native(node.this)}), 'null')")


def _change(function: str) -> Rule:
    return lambda node, _: call(function, node.this, *node.expressions)


def cast_to_json(node: exp.Expr, source: DialectSource) -> exp.Expr | None:
    """Translate a cast to JSON; None for what is the same here."""
    return call("to_json", node.this) if source.dialect == "trino" else None


RULES: Mapping[type[exp.Expr], Rule] = MappingProxyType(
    {
        exp.Anonymous: _function,
        exp.JSONObject: _object("json_object"),
        exp.JSONObjectAgg: _object("json_objectagg"),
        exp.JSONArray: _array,
        exp.JSONExtractScalar: _extract("json_extract_string"),
        exp.JSONFormat: _text_of_json,
        exp.JSONSet: _change("json_set"),
        exp.JSONRemove: _change("json_remove"),
    }
)
extract_json: Final = _extract("json_extract")
"""Translates an extraction of JSON that is none from a variant."""
