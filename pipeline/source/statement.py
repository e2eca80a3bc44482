"""The SQL that is sent to the gateway."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pipeline.source.options import Options

_QUALIFIED = re.compile(r"(lance\.)?(main|system|information_schema)\.(?P<name>.+)", re.DOTALL)
# What can stand in brackets as a table; comments and brackets may come before it.
_IN_BRACKETS = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/|\()*(select|with|values|table)\b", re.IGNORECASE | re.DOTALL
)


def quoted(name: str) -> str:
    """A name as the gateway's SQL spells it."""
    return '"' + name.replace('"', '""') + '"'


def table_reference(name: str) -> str:
    """A table's name in SQL; the schemas that a gateway has may stand before it."""
    found = _QUALIFIED.fullmatch(name)
    if found is None:
        return quoted(name)
    return f"{name[: found.start('name')]}{quoted(found['name'])}"


def is_wrapped(options: Options) -> bool:
    """Whether columns and conditions can be part of the statement: it speaks the gateway's own SQL."""
    if options.query is None:
        return True
    native = options.settings.get("dialect", "postgres") == "postgres"
    return native and _IN_BRACKETS.match(options.query) is not None


def described(options: Options) -> str:
    """The statement whose columns there are to choose from."""
    return selecting(options, (), ()) if options.query is None else _plain(options.query)


def selecting(options: Options, columns: Sequence[str], conditions: Sequence[str]) -> str:
    """The statement that is executed.

    Args:
        options: name the table, or have the query.
        columns: of the result; all of them where there are none.
        conditions: all of which rows must fulfil.

    Returns:
        The query as it is where it can't be wrapped; its result may have more columns, in another order.
    """
    if not is_wrapped(options):
        return _plain(options.query or "")
    chosen = ", ".join(map(quoted, columns)) or "*"
    if options.query is not None:
        # A comment may end the query.
        source = f"(\n{_plain(options.query)}\n) AS q"
    else:
        source = table_reference(options.table or "")
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT {chosen} FROM {source}{where}"  # noqa: S608 - names are quoted


def _plain(query: str) -> str:
    return query.strip().rstrip(";").rstrip()
