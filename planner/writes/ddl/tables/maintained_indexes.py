"""``ALTER TABLE t SET (maintained_indexes = ..)``: the indexes that generations carry from now on."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from lance_gateway.memwal.base.index_details import replace_details
from lance_gateway.memwal.base.table_place import keep_in_place
from lance_gateway.memwal.base.versions import ATTEMPTS, commit_next
from lance_gateway.memwal.creating.index_types import INDEX_TYPES
from lance_gateway.memwal.errors import NotFoundError, PreconditionError, UnavailableError, UnsupportedError
from lance_gateway.memwal.quantities import parse_truth
from lance_gateway.planner.tables.sources.base_table import BaseTable
from lance_gateway.planner.tables.state.table import Table
from lance_gateway.planner.writes.ddl.options import parse_names

_PAUSE_SECONDS: Final = 0.02


@dataclass(frozen=True)
class SetMaintainedIndexes:
    """SET (maintained_indexes = ..).

    Attributes:
        names: of the indexes; None for all that there are.
    """

    names: tuple[str, ...] | None

    @staticmethod
    def parse(text: str) -> SetMaintainedIndexes:
        """Read names separated by commas; true stands for all, false and an empty text for none."""
        try:
            return SetMaintainedIndexes(None if text and parse_truth(text) else ())
        except ValueError:
            return SetMaintainedIndexes(parse_names(text))

    def check(self, table: Table) -> bool:
        """Refuse tables without a MemWAL, unknown indexes, and types that generations can't have."""
        base = table.base()
        if base.details is None:
            msg = (
                f"table {table.name!r} has no MemWAL, and so no generations that could carry indexes: ALTER "
                f"TABLE {table.name} SET (memwal = true, maintained_indexes = '..') gives it one"
            )
            raise PreconditionError(msg)
        for name in self.names or ():
            _check_index(base, name)
        if self.names is None:
            return not base.details.maintain_all_indexes
        return base.details.maintain_all_indexes or set(self.names) != set(base.details.maintained_indexes)

    def apply(self, table: Table) -> None:
        """Commit the names on the newest version alone, so that no progress of merges is lost (ADR 27)."""
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(random.uniform(0, _PAUSE_SECONDS * 2**attempt))  # noqa: S311 - no secret
            with keep_in_place(table.storage):
                base = table.base()
                if not self.check(table) or base.details is None:
                    return
                encoded = base.details.encode_with_maintained(self.names)
                operation = replace_details(table.storage, base.version, encoded)
                if commit_next(table.storage, base.version, operation):
                    table.base()
                    return
        msg = (
            f"table {table.name!r}: maintained_indexes was not set, since others committed {ATTEMPTS} times "
            "meanwhile; nothing changed, try again later"
        )
        raise UnavailableError(msg)


def _check_index(base: BaseTable, name: str) -> None:
    index = next((one for one in base.indexes if one.name == name), None)
    if index is None:
        names = [one.name for one in base.indexes]
        close = get_close_matches(name, names, n=1)
        hint = f"did you mean {close[0]}?" if close else f"it has {', '.join(names) or 'none'}"
        msg = f"table {base.name!r} has no index {name!r}: {hint}"
        raise NotFoundError(msg)
    kind = INDEX_TYPES.get(index.type.upper())
    if kind is None or not kind.is_maintained:
        msg = (
            f"index {name!r} of table {base.name!r} is of type {index.type}, which writers can't give to "
            "what they flush: leave it out; rows of generations are found without it"
        )
        raise UnsupportedError(msg)
