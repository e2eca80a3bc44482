"""What statements about pg_catalog say in words of PostgreSQL, in words of DataFusion.

    SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod) FROM pg_catalog.pg_attribute a
    WHERE a.attrelid = 'main.orders'::regclass
->  SELECT a.attname, format_type_2(a.atttypid, a.atttypmod) AS "format_type" FROM pg_catalog.pg_attribute a
    WHERE a.attrelid = to_regclass_1('main.orders')

Oids are numbers, and names are texts. The casts of PostgreSQL between them are functions; a literal or
parameter is cast to an oid, anything else is an oid that is cast to its name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from planner.bridge.types.parameter_types import sql_type
from planner.sql.edits import Edit, apply_edits
from planner.sql.standard.spellings.results import find_cast_operand, is_result
from planner.sql.tokens import QUOTED, STRING, SqlText, quote, tokenize
from planner.system.catalogs.functions import CATALOG_FUNCTIONS, FUNCTION_NAMES, CatalogFunction
from planner.system.catalogs.pg_catalog import ALWAYS_EMPTY
from planner.system.catalogs.relations import INFORMATION_SCHEMA, PG_CATALOG

_MARKS: Final = (
    "pg_",
    "oid",
    "regclass",
    "regtype",
    "regproc",
    "regnamespace",
    "regrole",
    "to_reg",
    "::name",
    "as name",
    '"char"',
    "::information_schema",
    "_description",
    "_privilege",
    "format_type",
    "quote_ident",
    "quote_literal",
    "quote_nullable",
    "current_setting",
    "generate_subscripts",
)
"""A text without any of these has nothing of PostgreSQL's own. An expression would take longer to search."""
_PLAIN_TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "OID": "BIGINT",
        "NAME": "VARCHAR",
        "REGPROC": "VARCHAR",
        '"': "VARCHAR",
        "XID": "BIGINT",
        "TEXT": "VARCHAR",
    }
)
_NAMED: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "REGCLASS": ("to_regclass", "regclass_name"),
        "REGTYPE": ("to_regtype", "regtype_name"),
        "REGNAMESPACE": ("to_regnamespace", "regnamespace_name"),
        "REGROLE": ("pg_get_userbyid", "pg_get_userbyid"),
    }
)
"""Type -> function that makes oids of names, function that makes names of oids."""


def speak_datafusion(text: SqlText) -> SqlText:
    """Return the text in words of DataFusion; the same object if it has nothing of PostgreSQL's own.

    Raises:
        InvalidInputError: a function of pg_catalog has another number of arguments.
    """
    if not _has_marks(text.sql):
        return text
    edits = [*_rewrite_calls(text), *_rewrite_casts(text), *_rewrite_clauses(text), *_shorten_columns(text)]
    return tokenize(apply_edits(text.sql, edits)) if edits else text


def speak_datafusion_sql(sql: str) -> str:
    """Return a statement as `speak_datafusion` does.

    Raises:
        LanceGatewayError: it can't be tokenized, or see there.
    """
    return speak_datafusion(tokenize(sql)).sql if _has_marks(sql) else sql


def _has_marks(sql: str) -> bool:
    lowered = sql.lower()
    return any(mark in lowered for mark in _MARKS)


def _shorten_columns(text: SqlText) -> Iterator[Edit]:
    """Yield edits that drop the schema from names such as pg_catalog.pg_class.oid."""
    words = text.words
    for i, word in enumerate(words):
        is_first = word and text.name(i) == PG_CATALOG and (i == 0 or words[i - 1] != ".")
        if is_first and words[i + 1 : i + 2] == (".",) and words[i + 3 : i + 4] == (".",):
            yield Edit(text.start(i), text.start(i + 2), [])


def _rewrite_calls(text: SqlText) -> Iterator[Edit]:
    words = text.words
    for i in range(len(words) - 1):
        if words[i + 1] != "(" or not text.is_name(i):
            continue
        first = i
        if i > 1 and words[i - 1] == ".":
            if text.name(i - 2) != PG_CATALOG:
                continue
            first = i - 2
        name, closing = text.name(i), text.closing(i + 1)
        if not words[closing]:
            return  # it is not closed, which the binder tells
        if name == "current_setting" and words[i + 2] == STRING:
            continue  # a constant, see `session_functions`
        if name in FUNCTION_NAMES:
            count = _count_arguments(text, i + 1, closing)
            function = CATALOG_FUNCTIONS.get((name, count))
            if function is None:
                offered = [str(number) for other, number in CATALOG_FUNCTIONS if other == name]
                raise text.error(i, f"{name} takes {' or '.join(offered)} arguments, and {count} stand")
            yield Edit.replace(text.start(first), text.end(i), function.name)
            yield from _cast_parameters(text, i + 1, closing, function)
            if is_result(text, first, closing):
                yield Edit.insert(text.end(closing), f" AS {quote(name)}")
        else:
            yield from _rewrite_other_call(text, i, first, closing)


def _rewrite_other_call(text: SqlText, i: int, first: int, closing: int) -> Iterator[Edit]:
    """Yield the edits of a call of what is none of the catalog's functions.

    Args:
        text: of the statement.
        i: token of the name.
        first: token of the schema, or of the name without one.
        closing: token of the closing bracket.
    """
    words, word = text.words, text.words[i]
    if word == "GENERATE_SUBSCRIPTS" and _count_arguments(text, i + 1, closing) == 2:
        # Lists have one dimension, so its number is also what lies behind the last subscript.
        comma = max(j for j in _level(text, i + 2, closing) if words[j] == ",")
        yield Edit.replace(text.start(first), text.end(i), "unnest(range(1, CAST(cardinality")
        yield Edit.replace(text.start(comma), text.end(comma), ") AS BIGINT) + CAST(")
        yield Edit.replace(text.start(closing), text.end(closing), " AS BIGINT)))")
    elif word == "PG_IS_IN_RECOVERY":
        alias = f" AS {quote(text.name(i))}" if is_result(text, first, closing) else ""
        yield Edit.replace(text.start(first), text.end(closing), f"FALSE{alias}")
    elif word == "JSON_BUILD_OBJECT" and not ALWAYS_EMPTY.isdisjoint(text.names.values()):
        # It stands over rows that there are none of; over others, the cast fails.
        yield Edit.replace(text.start(first), text.end(i), "CAST(CAST(concat")
        yield Edit.insert(text.end(i + 1), "'json_build_object is not offered: ', ")
        yield Edit.replace(text.start(closing), text.end(closing), ") AS BIGINT) AS VARCHAR)")
    elif first != i:
        yield Edit(text.start(first), text.start(i), [])


def _cast_parameters(text: SqlText, opening: int, closing: int, function: CatalogFunction) -> Iterator[Edit]:
    """Yield edits that tell the types of arguments that are parameters."""
    commas = [i for i in _level(text, opening + 1, closing) if text.words[i] == ","]
    for first, last, kind in zip([opening, *commas], [*commas, closing], function.arguments, strict=False):
        if text.words[first + 1 : last] == ("?",) or (text.words[first + 1] == "$" and last == first + 3):
            name = sql_type(kind)
            yield from Edit.wrap(text.start(first + 1), text.end(last - 1), "CAST(", f" AS {name})")


def _count_arguments(text: SqlText, opening: int, closing: int) -> int:
    if closing == opening + 1:
        return 0
    return 1 + sum(text.words[i] == "," for i in _level(text, opening + 1, closing))


def _level(text: SqlText, first: int, last: int) -> Iterator[int]:
    """Yield the tokens of a range that are in no bracket of any kind."""
    depth = 0
    for i in range(first, last):
        depth -= text.words[i] in {")", "]", "}"}
        if depth == 0:
            yield i
        depth += text.words[i] in {"(", "[", "{"}


# Casts


def _rewrite_casts(text: SqlText) -> Iterator[Edit]:
    words = text.words
    for i, word in enumerate(words):
        if word == "::" and i and words[i + 1]:
            last, kind = _read_type(text, i + 1)
            if kind in _NAMED:
                first = find_cast_operand(text, i)
                function = _choose(kind, text, first, i)
                yield from Edit.wrap(text.start(first), text.end(i - 1), f"{function}(", ")")
                is_column = text.is_name(i - 1) and words[i - 2] != "::"
                name = text.name(i - 1) if is_column else kind.lower()
                alias = f" AS {quote(name)}" if is_result(text, first, last) else ""
                yield Edit.replace(text.start(i), text.end(last), alias)
            elif kind:
                yield Edit.replace(text.start(i + 1), text.end(last), kind)
        elif word == "CAST" and words[i + 1] == "(":
            closing = text.closing(i + 1)
            marks = [j for j in _level(text, i + 2, closing) if words[j] == "AS"]
            if not marks or not words[closing]:
                continue
            last, kind = _read_type(text, marks[-1] + 1)
            if kind in _NAMED:
                yield Edit.replace(text.start(i), text.end(i), _choose(kind, text, i + 2, marks[-1]))
                yield Edit(text.start(marks[-1]), text.end(last), [])
            elif kind:
                yield Edit.replace(text.start(marks[-1] + 1), text.end(last), kind)


def _read_type(text: SqlText, i: int) -> tuple[int, str]:
    """Return the last token of a type's name, and a key of `_NAMED`, another name for the type, or ""."""
    words, qualifier = text.words, ""
    if words[i + 1 : i + 2] == (".",) and words[i + 2] and text.name(i) in {PG_CATALOG, INFORMATION_SCHEMA}:
        qualifier, i = text.name(i), i + 2
    word = words[i]
    if word in _NAMED:
        return i, word
    if word == QUOTED and not (text.name(i) == "char" or qualifier):
        return i, ""
    if qualifier == INFORMATION_SCHEMA:
        return i, "INTEGER" if word == "CARDINAL_NUMBER" else "VARCHAR"
    if qualifier or word in _PLAIN_TYPES:
        return i, _PLAIN_TYPES.get(word, word if word != QUOTED else "VARCHAR")
    return i, ""


def _choose(kind: str, text: SqlText, first: int, behind: int) -> str:
    """Return the function that casts an operand to a type that is an oid with a name."""
    operand = text.words[first:behind]
    is_name = operand in {(STRING,), ("?",)} or (len(operand) == 2 and operand[0] == "$")
    # What gives names is one of the functions of PostgreSQL.
    is_name = is_name or "PG_GET_SERIAL_SEQUENCE" in operand or "QUOTE_IDENT" in operand
    function = CATALOG_FUNCTIONS[_NAMED[kind][0 if is_name else 1], 1]
    return function.name


def _rewrite_clauses(text: SqlText) -> Iterator[Edit]:
    """Yield edits for OPERATOR(pg_catalog.~) and COLLATE, which says nothing where texts have one order."""
    words = text.words
    for i, word in enumerate(words):
        if word == "OPERATOR" and words[i + 1 : i + 4] == ("(", "PG_CATALOG", "."):
            closing = text.closing(i + 1)
            if not words[closing] or closing < i + 5:
                continue
            yield Edit(text.start(i), text.start(i + 4), [])
            yield Edit(text.start(closing), text.end(closing), [])
        elif word == "COLLATE" and text.is_name(i + 1):
            last = i + 3 if words[i + 2] == "." else i + 1
            if text.is_name(last) and text.name(last) in {"default", "C"}:
                yield Edit(text.start(i), text.end(last), [])
