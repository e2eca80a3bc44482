"""What stands in ``WITH (..)`` and ``SET (..)``: names, values, and messages where they make no sense."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from memwal.base.index_details import RegionField, RegionSpec
from memwal.creating import MemWalOptions
from memwal.creating.region_by import UNSHARDED
from memwal.errors import InvalidInputError
from planner.sql.tokens import fold, quote


def region_text(spec: RegionSpec, names: Mapping[int, str]) -> str:
    """What makes the same spec again.

    Args:
        spec: of a table.
        names: Lance field id -> column.
    """
    return ", ".join(_field_text(one, names) for one in spec.fields) or "unsharded"


def _field_text(field: RegionField, names: Mapping[int, str]) -> str:
    columns = [_spelt(names.get(source, f"field {source}")) for source in field.source_ids]
    if field.expression is not None:
        text = "'" + field.expression.replace("'", "''") + "'"
        return f"expression({', '.join([text, *columns])})"
    if not columns:
        return str(field.transform)
    return f"{field.transform}({', '.join([*columns, *field.parameters.values()])})"


def _spelt(name: str) -> str:
    return name if name.isidentifier() and name == fold(name) else quote(name)


WRITER_DEFAULTS = (
    "max_memtable_size",
    "max_memtable_rows",
    "max_memtable_batches",
    "max_unflushed_memtable_bytes",
)
"""Options of Lance's region writers that a table may record for all of its writers."""
TABLE_OPTIONS = (
    "memwal",
    "region_by",
    "maintained_indexes",
    "keys_never_move",
    "primary_key",
    *WRITER_DEFAULTS,
)


@dataclass(frozen=True, slots=True)
class TableOptions:
    """What was said of a table that is made or changed.

    Attributes:
        primary_key: columns in key order; None where nothing was said.
        mem_wal: how its MemWAL is set up; None for a table without.
    """

    primary_key: tuple[str, ...] | None
    mem_wal: MemWalOptions | None


def check_names(given: Mapping[str, str], known: tuple[str, ...], what: str) -> None:
    """Refuse options that nothing is called.

    Raises:
        InvalidInputError: names those that come close.
    """
    for name in given:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"there are: {', '.join(known)}"
            msg = f"{what} has no option {name!r}; {hint}"
            raise InvalidInputError(msg)


def table_options(given: Mapping[str, str]) -> TableOptions:
    """Read the options of a table.

    Raises:
        InvalidInputError: an unknown name, or a value that makes no sense.
    """
    check_names(given, TABLE_OPTIONS, "a table")
    key = None if "primary_key" not in given else names_of(given["primary_key"])
    if not truth("memwal", given.get("memwal", "true")):
        useless = [name for name in given if name not in ("memwal", "primary_key")]
        if useless:
            msg = f"{', '.join(useless)} means nothing with memwal = false: leave one of the two out"
            raise InvalidInputError(msg)
        return TableOptions(key, None)
    maintained = None if "maintained_indexes" not in given else names_of(given["maintained_indexes"])
    defaults = {name: str(number(name, given[name])) for name in WRITER_DEFAULTS if name in given}
    mem_wal = MemWalOptions(
        region_by=given.get("region_by", UNSHARDED),
        maintained_indexes=maintained,
        keys_never_move=truth("keys_never_move", given.get("keys_never_move", "false")),
        writer_defaults=defaults,
    )
    return TableOptions(key, mem_wal)


def names_of(text: str) -> tuple[str, ...]:
    """Names separated by commas, in double quotes where they are not to be folded."""
    return tuple(_unquoted(part.strip()) for part in text.split(",") if part.strip())


def truth(name: str, value: str) -> bool:
    """Whether an option is on.

    Raises:
        InvalidInputError: it says neither.
    """
    folded = value.strip().lower()
    if folded in ("true", "on", "yes", "1"):
        return True
    if folded in ("false", "off", "no", "0"):
        return False
    msg = f"option {name} is {value!r}, but must be true or false"
    raise InvalidInputError(msg)


def number(name: str, value: str) -> int:
    """The number that an option is.

    Raises:
        InvalidInputError: it is none, or less than 1.
    """
    try:
        parsed = int(value)
    except ValueError:
        parsed = 0
    if parsed < 1:
        msg = f"option {name} is {value!r}, but must be a whole number from 1 on"
        raise InvalidInputError(msg)
    return parsed


def _unquoted(name: str) -> str:
    if len(name) > 1 and name.startswith('"') and name.endswith('"'):
        return name[1:-1].replace('""', '"')
    return fold(name)
