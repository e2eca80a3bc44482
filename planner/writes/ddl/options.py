"""Options of ``WITH (..)`` and ``SET (..)``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeVar

from lance_gateway.memwal.creating import MemWalOptions
from lance_gateway.memwal.creating.region_by import UNSHARDED
from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.memwal.quantities import parse_count, parse_truth
from lance_gateway.planner.sql.text.tokens import fold

T = TypeVar("T")


WRITER_DEFAULTS = (
    "max_memtable_size",
    "max_memtable_rows",
    "max_memtable_batches",
    "max_unflushed_memtable_bytes",
)
"""Options of Lance's region writers that a table may record for all of its writers."""
STABLE_ROW_IDS = "stable_row_ids"
TABLE_OPTIONS = (
    "memwal",
    "region_by",
    "maintained_indexes",
    "keys_never_move",
    "primary_key",
    "key_index",
    STABLE_ROW_IDS,
    *WRITER_DEFAULTS,
)


@dataclass(frozen=True, slots=True)
class TableOptions:
    """Parsed options of a table.

    Attributes:
        primary_key: columns in key order; None without the option.
        mem_wal: options of the MemWAL; None for a table without MemWAL.
        key_index: key columns that get an index; None for the default.
        stable_row_ids: whether rows keep their ids when they are changed.
    """

    primary_key: tuple[str, ...] | None
    mem_wal: MemWalOptions | None
    key_index: tuple[str, ...] | None
    stable_row_ids: bool = False


def check_option_names(options: Mapping[str, str], names: tuple[str, ...], what: str) -> None:
    """Check the names of options.

    Raises:
        InvalidInputError: an option is unknown; suggests a similar name.
    """
    for name in options:
        if name not in names:
            close = get_close_matches(name, names, n=1)
            hint = f"did you mean {close[0]}?" if close else f"there are: {', '.join(names)}"
            msg = f"{what} has no option {name!r}; {hint}"
            raise InvalidInputError(msg)


def read_table_options(given: Mapping[str, str]) -> TableOptions:
    """Parse the options of a table.

    Raises:
        InvalidInputError: a name is unknown, or a value is invalid.
    """
    check_option_names(given, TABLE_OPTIONS, "a table")
    key = None if "primary_key" not in given else parse_names(given["primary_key"])
    key_index = parse_key_index(given.get("key_index", "true"))
    stable = parse_value(STABLE_ROW_IDS, given.get(STABLE_ROW_IDS, "false"), parse_truth)
    if not parse_value("memwal", given.get("memwal", "true"), parse_truth):
        useful = ("memwal", "primary_key", "key_index", STABLE_ROW_IDS)
        useless = [name for name in given if name not in useful]
        if useless:
            msg = f"{', '.join(useless)} means nothing with memwal = false: leave one of the two out"
            raise InvalidInputError(msg)
        return TableOptions(key, None, key_index, stable)
    maintained = None if "maintained_indexes" not in given else parse_names(given["maintained_indexes"])
    defaults = {
        name: str(parse_value(name, given[name], parse_count)) for name in WRITER_DEFAULTS if name in given
    }
    mem_wal = MemWalOptions(
        region_by=given.get("region_by", UNSHARDED),
        maintained_indexes=maintained,
        keys_never_move=parse_value("keys_never_move", given.get("keys_never_move", "false"), parse_truth),
        writer_defaults=defaults,
    )
    return TableOptions(key, mem_wal, key_index, stable)


def parse_key_index(text: str) -> tuple[str, ...] | None:
    """Parse the option key_index: true, false, or names of key columns; None for true, the default."""
    try:
        return None if parse_truth(text) else ()
    except ValueError:
        return parse_names(text)


def parse_names(text: str) -> tuple[str, ...]:
    """Parse names separated by commas; names in double quotes are not folded."""
    return tuple(_unquote(part.strip()) for part in text.split(",") if part.strip())


def parse_value(name: str, value: str, parse: Callable[[str], T]) -> T:
    """Parse the value of an option.

    Raises:
        InvalidInputError: `parse` refuses it.
    """
    try:
        return parse(value)
    except ValueError as error:
        msg = f"option {name} is {value!r}, but must be {error}"
        raise InvalidInputError(msg) from None


def _unquote(name: str) -> str:
    if len(name) > 1 and name.startswith('"') and name.endswith('"'):
        return name[1:-1].replace('""', '"')
    return fold(name)
