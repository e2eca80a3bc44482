"""Functions and operators of other dialects, other than those of dates."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from sqlglot import exp

from lance_gateway.planner.sql.dialects.build import (
    Rule,
    call,
    from_template,
    literal_number,
    literal_text,
    native,
    operand,
    raw,
)
from lance_gateway.planner.sql.dialects.json_calls import cast_to_json, extract_json
from lance_gateway.planner.sql.dialects.rounding import is_rounded
from lance_gateway.planner.sql.dialects.source import DialectSource

# Dialects in which CAST raises errors, though sqlglot reads it as TRY_CAST.
_CAST_FAILS = frozenset({"spark"})
_BACKSLASH_IS_TEXT = frozenset({"duckdb", "snowflake", "trino"})
_FROM_ZERO = frozenset({"spark", "snowflake", "bigquery"})
_TYPES: Mapping[exp.DType, str] = MappingProxyType(
    {
        exp.DType.UTINYINT: "TINYINT UNSIGNED",
        exp.DType.USMALLINT: "SMALLINT UNSIGNED",
        exp.DType.UINT: "INT UNSIGNED",
        exp.DType.UBIGINT: "BIGINT UNSIGNED",
        exp.DType.TINYINT: "TINYINT",
        exp.DType.INT128: "DECIMAL(38, 0)",
        exp.DType.UINT128: "DECIMAL(38, 0)",
        exp.DType.BIGDECIMAL: "DECIMAL(38, 9)",
        exp.DType.CHAR: "VARCHAR",
        exp.DType.NCHAR: "VARCHAR",
        exp.DType.NVARCHAR: "VARCHAR",
        exp.DType.VARCHAR: "VARCHAR",
        exp.DType.TEXT: "VARCHAR",
        exp.DType.BINARY: "BYTEA",
        exp.DType.VARBINARY: "BYTEA",
    }
)
_ESCAPES = re.compile(r"\\x([0-9a-fA-F]{2})|[^\\]")
_ESCAPED = re.compile(rf"(?:{_ESCAPES.pattern})*", re.ASCII)
_TEXTS = frozenset({exp.DType.CHAR, exp.DType.NCHAR, exp.DType.VARCHAR, exp.DType.NVARCHAR})


def _cast(node: exp.Expr, source: DialectSource) -> exp.Expr | None:
    to = node.args["to"]
    if node.args.get("format") is not None or node.args.get("default") is not None:
        source.refuse(node, "CAST with a format is not supported")
    if not isinstance(to, exp.DataType):
        return None
    text = literal_text(node.this) or ""
    if source.dialect == "duckdb" and to.this is exp.DType.VARBINARY and "\\" in text:
        if not _ESCAPED.fullmatch(text):
            source.refuse(node, "escapes in a BLOB other than \\xFF are not supported")
        return raw(f"X'{''.join(at[1] or at[0].encode().hex() for at in _ESCAPES.finditer(text))}'")
    safe = isinstance(node, exp.TryCast) and (
        bool(node.args.get("safe")) or source.dialect not in _CAST_FAILS
    )
    name = _TYPES.get(to.this) or native(to)
    if to.this is exp.DType.DECIMAL and not to.expressions and source.dialect == "bigquery":
        name = "DECIMAL(38, 9)"
    if to.this is exp.DType.JSON and (translated := cast_to_json(node, source)) is not None:
        return translated
    value = f"round({native(node.this)})" if is_rounded(node) else native(node.this)
    text = f"{'TRY_CAST' if safe else 'CAST'}({value} AS {name})"
    if to.this in _TEXTS and to.expressions and source.dialect not in {"duckdb", "bigquery"}:
        # DataFusion ignores the length of a text type.
        text = f"left({text}, {native(to.expressions[0])})"
    return raw(text)


def _rename(name: str) -> Rule:
    """Return a rule that only renames a function."""

    def rule(node: exp.Expr, source: DialectSource) -> exp.Expr:
        arguments = [one for one in (node.this, node.args.get("expression")) if isinstance(one, exp.Expr)]
        arguments += node.expressions
        known = {"this", "expression", "expressions", "big_int", "is_string", "safe"}
        extra = [key for key, value in node.args.items() if value and key not in known]
        if any(isinstance(node.args[key], exp.Expr) for key in extra):
            source.refuse(node, f"{node.key.upper()} with these arguments is not supported")
        return call(name, *arguments)

    return rule


def _position(node: exp.Expr, source: DialectSource) -> exp.Expr:
    if node.args.get("position") is not None or node.args.get("occurrence") is not None:
        source.refuse(node, "searching from a position is not supported")
    return call("strpos", node.this, node.args["substr"])


def _substring(node: exp.Expr, source: DialectSource) -> exp.Expr:
    start, length = node.args.get("start"), node.args.get("length")
    first = literal_number(start)
    if first is not None and first < 0 and length is None:
        return call("right", node.this, str(-first))
    if first is not None and first < 1:
        source.refuse(node, f"a substring from {first} with a length is not supported")
    return call("substr", node.this, start, length)


def _length(node: exp.Expr, source: DialectSource) -> exp.Expr:
    is_binary = source.dialect == "mysql" and node.args.get("binary")
    return call("octet_length" if is_binary else "length", node.this)


def _regexp_like(node: exp.Expr, _source: DialectSource) -> exp.Expr:
    pattern = native(node.expression)
    if node.args.get("full_match"):
        pattern = f"('^(?:' || {pattern} || ')$')"
    flags = node.args.get("flag")
    if isinstance(node, exp.RegexpILike):
        flags = exp.Literal.string("i")
    return call("regexp_like", node.this, pattern, flags)


def _regexp_replace(node: exp.Expr, source: DialectSource) -> exp.Expr:
    if any(node.args.get(name) is not None for name in ("position", "occurrence")):
        source.refuse(node, "REGEXP_REPLACE from a position is not supported")
    flags = literal_text(node.args.get("modifiers")) or ""
    if source.dialect != "duckdb" and "g" not in flags:
        flags += "g"
    replacement = native(node.args.get("replacement")) or "''"
    if source.dialect in {"spark", "trino", "mysql"}:
        replacement = re.sub(r"\$(\d)", r"\\\1", replacement)
    return call("regexp_replace", node.this, node.expression, replacement, f"'{flags}'" if flags else None)


def _regexp_extract(node: exp.Expr, source: DialectSource) -> exp.Expr:
    pattern = literal_text(node.expression)
    if pattern is None:
        source.refuse(node, "the pattern of REGEXP_EXTRACT must be a literal")
    if any(node.args.get(name) is not None for name in ("position", "occurrence", "parameters")):
        source.refuse(node, "REGEXP_EXTRACT with these arguments is not supported")
    group = node.args.get("group")
    number = literal_number(group) if group is not None else 0
    if source.dialect == "bigquery":
        number = 1 if re.search(r"(?<!\\)\((?!\?)", pattern) else 0
    if number is None:
        source.refuse(node, "the group of REGEXP_EXTRACT must be a literal")
    quoted = pattern.replace("'", "''")
    quoted, number = (f"({quoted})", 1) if number == 0 else (quoted, number)
    found = f"(regexp_match({native(node.this)}, '{quoted}'))[{number}]"
    if source.dialect in {"spark", "duckdb"}:
        found = f"CASE WHEN {operand(node.this)} IS NULL THEN NULL ELSE coalesce({found}, '') END"
    return raw(found)


def _split(node: exp.Expr, source: DialectSource) -> exp.Expr:
    separator = literal_text(node.expression)
    if isinstance(node, exp.RegexpSplit) and (separator is None or re.escape(separator) != separator):
        escaped = None if separator is None else re.fullmatch(r"\\(\W)|([,;:#@!%&=~<> /_\-])", separator)
        if escaped is None:
            source.refuse(node, "splitting by a regular expression is not supported")
        return call("string_to_array", node.this, exp.Literal.string(escaped[1] or escaped[2]))
    return call("string_to_array", node.this, node.expression)


def _extreme(name: str) -> Rule:
    def rule(node: exp.Expr, source: DialectSource) -> exp.Expr:
        arguments = [node.this, *node.expressions]
        text = native(call(name, *arguments))
        if source.dialect in {"spark", "duckdb"}:
            return raw(text)
        unknown = " OR ".join(f"{operand(argument)} IS NULL" for argument in arguments)
        return raw(f"CASE WHEN {unknown} THEN NULL ELSE {text} END")

    return rule


def _int_div(node: exp.Expr, source: DialectSource) -> exp.Expr:
    left, right = operand(node.this), operand(node.expression)
    if source.dialect == "mysql":
        right = f"nullif({right}, 0)"
    return raw(f"CAST({left} / {right} AS BIGINT)")


def _infix(operator: str) -> Rule:
    """Return a rule that replaces the operator of an operation."""
    return lambda node, _: raw(f"({operand(node.this)} {operator} {operand(node.expression)})")


def _exclusive_or(node: exp.Expr, _: DialectSource) -> exp.Expr:
    """Write the exclusive OR of bits, for which DataFusion has `^`, which raises to a power here."""
    left, right = operand(node.this), operand(node.expression)
    return raw(f"(({left} | {right}) - ({left} & {right}))")


def _pattern(node: exp.Expr, source: DialectSource) -> exp.Expr | None:
    """Escape a literal pattern of LIKE with backslashes, before it is translated."""
    escape = node.parent if isinstance(node.parent, exp.Escape) and node.arg_key == "this" else None
    mark = literal_text(escape.expression) if escape is not None else None
    patterns = [node.expression]
    if isinstance(node.expression, exp.Any | exp.All):
        patterns = list(node.expression.find_all(exp.Literal))
    for pattern in patterns:
        text = literal_text(pattern)
        if text is None or (mark is None and source.dialect not in _BACKSLASH_IS_TEXT):
            continue
        marked = re.escape(mark) if mark else "(?!)"
        pattern.set("this", re.sub(rf"{marked}(.)|\\", lambda found: f"\\{found[1] or chr(92)}", text))
    if escape is not None and mark is not None and literal_text(node.expression) is not None:
        escape.expression.set("this", "\\")
    return None


def _index(node: exp.Expr, source: DialectSource) -> exp.Expr | None:
    """Add 1 to an index that counts from 0; sqlglot does this only for literals."""
    if source.dialect not in _FROM_ZERO or len(node.expressions) != 1 or node.args.get("offset") == 1:
        return None
    index = node.expressions[0]
    if literal_number(index) is not None or literal_text(index) is not None:
        return None
    if source.dialect != "bigquery" or node.args.get("offset") != 0:
        source.refuse(node, "an index that is not a literal is supported with ELEMENT_AT, or OFFSET")
    return raw(f"{operand(node.this)}[{operand(index)} + 1]")


def _round(node: exp.Expr, source: DialectSource) -> exp.Expr | None:
    if node.args.get("truncate") is not None:
        source.refuse(node, "ROUND with a mode is not supported")
    return None


def _one_argument(node: exp.Expr, source: DialectSource) -> exp.Expr | None:
    if node.expressions:
        source.refuse(node, f"{node.key.upper()} of several arguments is not supported")
    return None


def _edge(node: exp.Expr, source: DialectSource) -> exp.Expr | None:
    count = literal_number(node.expression)
    if count is not None and count < 0 and source.dialect != "duckdb":
        source.refuse(node, f"{node.key.upper()} of less than nothing is not supported")
    return None


def _sort_array(node: exp.Expr, _source: DialectSource) -> exp.Expr:
    ascending, first = node.args.get("asc"), node.args.get("nulls_first")
    direction = "'DESC'" if isinstance(ascending, exp.Boolean) and not ascending.this else "'ASC'"
    if first is None:
        return call("array_sort", node.this, direction)
    return call("array_sort", node.this, direction, "'NULLS FIRST'" if first.this else "'NULLS LAST'")


def _like_any(node: exp.Expr, source: DialectSource) -> exp.Expr | None:
    chosen = node.expression
    if not isinstance(chosen, exp.Any | exp.All):
        return None
    patterns = (
        chosen.this.expressions if isinstance(chosen.this, exp.Tuple | exp.Array) else [chosen.this.this]
    )
    if not patterns or not all(isinstance(pattern, exp.Expr) for pattern in patterns):
        source.refuse(node, "this list of patterns is not supported")
    word = "ILIKE" if isinstance(node, exp.ILike) else "LIKE"
    joined = " OR " if isinstance(chosen, exp.Any) else " AND "
    subject = operand(node.this)
    return raw(f"({joined.join(f'{subject} {word} {operand(pattern)}' for pattern in patterns)})")


def _struct(node: exp.Expr, source: DialectSource) -> exp.Expr:
    fields: list[exp.Expr | str] = []
    named = 0
    for expression in node.expressions:
        if isinstance(expression, exp.PropertyEQ | exp.Alias):
            name = expression.this.name if isinstance(expression, exp.PropertyEQ) else expression.alias
            value = expression.expression if isinstance(expression, exp.PropertyEQ) else expression.this
            fields += [exp.Literal.string(name), value]
            named += 1
        else:
            fields.append(expression)
    if named not in {0, len(node.expressions)}:
        source.refuse(node, "a struct has names for all of its fields, or for none")
    return call("named_struct" if named else "struct", *fields)


def _field(node: exp.Expr, source: DialectSource) -> exp.Expr:
    name = node.expression
    if not isinstance(name, exp.Identifier | exp.Literal):
        source.refuse(node, "this function is not supported")
    return call("get_field", node.this, exp.Literal.string(name.name))


def _variant(node: exp.Expr, source: DialectSource) -> exp.Expr | None:
    path = node.expression
    keys = path.expressions[1:] if isinstance(path, exp.JSONPath) else []
    names = [key.this for key in keys if isinstance(key, exp.JSONPathKey) and isinstance(key.this, str)]
    if not node.args.get("variant_extract"):
        return extract_json(node, source)
    if not names or len(names) != len(keys):
        source.refuse(node, "a path with these steps is not supported")
    text = native(node.this)
    for name in names:
        text = f"get_field({text}, '{name.replace(chr(39), chr(39) * 2)}')"
    return raw(text)


def _keep(_node: exp.Expr, _source: DialectSource) -> None:
    """Leave a function unchanged, which is the same in DataFusion."""


def _raw_string(node: exp.Expr, _source: DialectSource) -> exp.Expr:
    return exp.Literal.string(node.this)


def _sha2(node: exp.Expr, source: DialectSource) -> exp.Expr:
    length = node.args.get("length")
    bits = 256 if length is None else literal_number(length)
    if bits not in {224, 256, 384, 512}:
        source.refuse(node, "SHA2 is supported with 224, 256, 384 and 512 bits")
    return raw(f"encode(sha{bits}({native(node.this)}), 'hex')")


def _concat_ws(node: exp.Expr, source: DialectSource) -> exp.Expr:
    joined = call("concat_ws", *node.expressions)
    if source.dialect != "snowflake":
        return joined
    unknown = " OR ".join(f"{operand(expression)} IS NULL" for expression in node.expressions)
    return raw(f"CASE WHEN {unknown} THEN NULL ELSE {native(joined)} END")


def _split_part(node: exp.Expr, source: DialectSource) -> exp.Expr | None:
    text, mark, number = node.this, node.args["delimiter"], node.args["part_index"]
    if source.dialect != "trino" or literal_number(number) == 1:
        return None
    parts = f"cardinality(string_to_array({native(text)}, {native(mark)}))"
    part = native(call("split_part", text, mark, number))
    return raw(f"CASE WHEN {operand(number)} <= {parts} THEN {part} END")


_SAME = (
    exp.Abs, exp.Acos, exp.Acosh, exp.And, exp.Anonymous, exp.Any, exp.Array, exp.Ascii, exp.Asin, exp.Asinh,
    exp.Atan, exp.Atan2, exp.Atanh, exp.Avg, exp.Case, exp.Cbrt, exp.Ceil, exp.Chr, exp.Coalesce, exp.Concat,
    exp.Corr, exp.Cos, exp.Cosh, exp.Cot, exp.Count, exp.CovarPop, exp.CovarSamp, exp.CumeDist,
    exp.CurrentDate, exp.CurrentTime, exp.DecodeCase, exp.Degrees, exp.DenseRank, exp.Exists, exp.Exp,
    exp.Explode, exp.FirstValue, exp.Floor, exp.GenerateSeries, exp.If, exp.Lag, exp.LastValue, exp.Lead,
    exp.Left, exp.Ln, exp.Log, exp.LogicalAnd, exp.LogicalOr, exp.Lower, exp.Map, exp.Max, exp.MD5, exp.Min,
    exp.NthValue, exp.Ntile, exp.Nullif, exp.Nvl2, exp.Or, exp.Pad, exp.PercentileCont, exp.PercentRank,
    exp.Pi, exp.Pow, exp.Radians, exp.Rank, exp.Repeat, exp.Replace, exp.Reverse, exp.Right, exp.Round,
    exp.RowNumber, exp.SafeDivide, exp.Sin, exp.Sinh, exp.Sqrt, exp.Stddev, exp.StddevPop,
    exp.StddevSamp, exp.SubstringIndex, exp.Sum, exp.Tan, exp.Tanh, exp.Translate, exp.Trim, exp.Trunc,
    exp.Unnest, exp.Upper, exp.Variance, exp.VariancePop, exp.VarMap, exp.WeekStart, exp.Xor,
)  # fmt: skip

BEFORE: Mapping[type[exp.Expr], Rule] = MappingProxyType({exp.Like: _pattern, exp.ILike: _pattern})
"""Rules that look at operands before these are translated."""

RULES: Mapping[type[exp.Expr], Rule] = MappingProxyType(
    {
        **dict.fromkeys(_SAME, _keep),
        exp.Cast: _cast,
        exp.TryCast: _cast,
        exp.StrPosition: _position,
        exp.Substring: _substring,
        exp.Length: _length,
        exp.RegexpLike: _regexp_like,
        exp.RegexpILike: _regexp_like,
        exp.RegexpReplace: _regexp_replace,
        exp.RegexpExtract: _regexp_extract,
        exp.Split: _split,
        exp.RegexpSplit: _split,
        exp.Greatest: _extreme("greatest"),
        exp.Least: _extreme("least"),
        exp.IntDiv: _int_div,
        exp.BitwiseXor: _exclusive_or,
        exp.Like: _like_any,
        exp.ILike: _like_any,
        exp.Struct: _struct,
        exp.Dot: _field,
        exp.JSONExtract: _variant,
        exp.RawString: _raw_string,
        exp.National: _raw_string,
        exp.SHA2: _sha2,
        exp.ConcatWs: _concat_ws,
        exp.SplitPart: _split_part,
        exp.Initcap: from_template("initcap({this})"),
        exp.Sign: _rename("signum"),
        exp.Rand: _rename("random"),
        exp.Uuid: _rename("uuid"),
        exp.IsNan: _rename("isnan"),
        exp.Contains: _rename("contains"),
        exp.StartsWith: _rename("starts_with"),
        exp.EndsWith: _rename("ends_with"),
        exp.Levenshtein: _rename("levenshtein"),
        exp.ArrayContains: _rename("array_has"),
        exp.ArraySize: _rename("cardinality"),
        exp.ArrayDistinct: _rename("array_distinct"),
        exp.ArrayToString: _rename("array_to_string"),
        exp.ArrayConcat: _rename("array_concat"),
        exp.ArraySort: _sort_array,
        exp.EqualNull: _infix("IS NOT DISTINCT FROM"),
        exp.Bracket: _index,
        exp.Round: _round,
        exp.Max: _one_argument,
        exp.Min: _one_argument,
        exp.Left: _edge,
        exp.Right: _edge,
        exp.Flatten: _rename("flatten"),
        exp.Factorial: _rename("factorial"),
        exp.ApproxDistinct: _rename("approx_distinct"),
    }
)
