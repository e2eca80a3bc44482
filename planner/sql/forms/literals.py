"""Literals, casts and words of types that DataFusion lacks."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Final
from uuid import UUID

from sqlglot import exp

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.memwal.rules import UUID_PATTERN
from lance_gateway.planner.sql.forms.calls import fill, list_calls, put
from lance_gateway.planner.sql.tree.groups import (
    find_groups,
    find_unions,
    list_literals,
    name_literals,
    read_hex,
)
from lance_gateway.planner.sql.tree.tree import Tree

_LARGEST: Final = 2**64
_FORM: Final = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
_TEXT: Final = "lower(CAST($1 AS VARCHAR))"
_IS_UUID: Final = f"regexp_like({_TEXT}, '{UUID_PATTERN}')"
_FAILS: Final = f"concat('no UUID, which is written {_FORM}: ', CAST($1 AS VARCHAR))"
_CAST: Final = (
    f"CASE WHEN CAST(CASE WHEN NOT {_IS_UUID} THEN {_FAILS} END AS BIGINT) IS NULL THEN {_TEXT} END"
)
"""The inner cast fails for a text of another form, and for no other."""
_FINER: Final[Mapping[str, str]] = MappingProxyType(
    {"1": "3", "2": "3", "4": "6", "5": "6", "7": "9", "8": "9"}
)
"""Digits of a fraction -> digits of the next finer unit."""
_BYTES: Final = (exp.DType.BINARY, exp.DType.VARBINARY)
_LOCAL: Final[Mapping[str, str]] = MappingProxyType({"LOCALTIMESTAMP": "TIMESTAMP", "LOCALTIME": "TIME"})


def based_integers(tree: Tree) -> None:
    """Write hexadecimal and binary integers as decimal ones; DataFusion takes the first for bytes.

        SELECT id FROM t WHERE flags = 0x1F
    ->  SELECT id FROM t WHERE flags = 31

    Bytes are written X'1F'.

    Raises:
        InvalidInputError: one is larger than any integer.
    """
    for number in tree.find_all(exp.Literal):
        written = number.meta.get("written")
        if written is None:
            continue
        if int(number.name) >= _LARGEST:
            what = f"{written} has more than 64 bits: write bytes as X'{written[2:]}'"
            raise tree.error(number, what)
        put(tree, number, number.copy(), written)


def hex_bytes(tree: Tree) -> None:
    r"""Write a text of hexadecimal digits that is cast to bytes as these bytes.

        SELECT '\xDEADBEEF'::bytea
    ->  SELECT X'deadbeef' AS "bytea"

    Raises:
        InvalidInputError: something else than pairs of digits is behind `\x`.
    """
    for cast in tree.find_all(exp.Cast):
        if cast.to.this in _BYTES and not cast.to.expressions:
            try:
                value: exp.Expr | None = read_hex(cast.this)
            except InvalidInputError as error:
                if not isinstance(cast, exp.TryCast):
                    raise tree.error(cast.this, str(error)) from None
                value = fill("CAST(NULL AS BYTEA)")
            if value is not None:
                put(tree, cast, value, "bytea")


def uuids(tree: Tree) -> None:
    """Write casts to UUID as casts to texts of 36 characters in lower case, which columns of UUIDs hold.

        SELECT id::uuid FROM t
    ->  SELECT CASE WHEN CAST(CASE WHEN NOT regexp_like(lower(CAST(id AS VARCHAR)), '^[0-9a-f]{8}-...') THEN
        concat('no UUID ..: ', CAST(id AS VARCHAR)) END AS BIGINT) IS NULL THEN lower(CAST(id AS VARCHAR)) END

    A text beside a literal of a UUID is written as that is.

    Raises:
        InvalidInputError: a literal is not a UUID.
    """
    casts = [one for one in tree.find_all(exp.Cast) if one.to.this is exp.DType.UUID]
    if not casts:
        return
    united = [[branch.items or () for branch in branches] for branches in find_unions(tree)]
    columns = [column for queries in united for column in zip(*queries, strict=False)]
    named = name_literals(tree)
    for members in (*(group.members for group in find_groups(tree)), *columns):
        for member in map(_find_output, members) if any(map(_is_uuid, members)) else ():
            is_column = isinstance(member, exp.Column)
            literals = list_literals(member, named) if is_column else [member]
            if not literals or not all(isinstance(one, exp.Literal) and one.is_string for one in literals):
                continue
            with suppress(ValueError):
                texts = [str(UUID(one.name)) for one in literals]
                new = fill("lower($1)", member) if is_column else exp.Literal.string(texts[0])
                put(tree, member, new, "uuid")
    for cast in tree.find_all(exp.Cast)[::-1]:
        if cast.to.this is not exp.DType.UUID:
            continue
        value, may_fail = cast.this, not isinstance(cast, exp.TryCast)
        if isinstance(value, exp.Literal) and value.is_string:
            new = _read_uuid(tree, value, may_fail=may_fail)
        else:
            new = fill(_CAST if may_fail else f"CASE WHEN {_IS_UUID} THEN {_TEXT} END", value)
        put(tree, cast, new, value.name if isinstance(value, exp.Column) else "uuid")


def _find_output(member: exp.Expr) -> exp.Expr:
    """Return the only output of a subquery; other expressions as they are."""
    query = member.unnest()
    is_one = isinstance(query, exp.Select) and len(query.expressions) == 1
    return query.expressions[0].unalias() if is_one else member


def _is_uuid(node: exp.Expr) -> bool:
    """Return whether an expression gives UUIDs that are cast."""
    match node:
        case exp.Cast():
            return node.to.this is exp.DType.UUID
        case exp.Paren():
            return _is_uuid(node.this)
        case exp.Case():
            return any(_is_uuid(branch.args["true"]) for branch in node.args["ifs"])
        case exp.Anonymous() if node.name.upper() in {"COALESCE", "GREATEST", "LEAST", "NULLIF"}:
            return _is_uuid(node.expressions[0])
    return False


def _read_uuid(tree: Tree, literal: exp.Literal, *, may_fail: bool) -> exp.Expr:
    """Return a literal in the form of columns; it may have braces, or no hyphens."""
    try:
        return exp.Literal.string(str(UUID(literal.name)))
    except ValueError as error:
        if may_fail:
            what = f"{literal.name!r} is not a UUID, which is written {_FORM}"
            raise tree.error(literal, what) from error
    return fill("CAST(NULL AS VARCHAR)")


def local_times(tree: Tree) -> None:
    """Write the local time as that of UTC, which is the time zone of all sessions.

        SELECT LOCALTIMESTAMP, LOCALTIME(0)
    ->  SELECT CAST(now() AS TIMESTAMP) AS "localtimestamp", CAST(now() AS TIME) AS "localtime"

    Both are reserved words: a column of such a name is in quotes, or behind the name of its table.
    """
    for node in [*list_calls(tree, _LOCAL), *tree.find_all(exp.Localtime, exp.Localtimestamp)]:
        name = node.name or node.sql_name()
        put(tree, node, fill(f"CAST(now() AS {_LOCAL[name.upper()]})"), name.lower())


def fractions(tree: Tree) -> None:
    """Give times of a precision that Arrow lacks the next finer unit that it has.

        SELECT CAST(at AS TIMESTAMP(4)) FROM t
    ->  SELECT CAST(at AS TIMESTAMP(6)) FROM t
    """
    for kind in tree.find_all(exp.DataType):
        if kind.this in {exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ} and kind.expressions:
            (digits,) = kind.find_all(exp.Literal)
            if finer := _FINER.get(digits.name):
                tree.replace(digits, exp.Literal.number(finer))
