"""``ALTER TABLE t SET (memwal = true, region_by = '..')``: a plain Lance table takes streaming writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import lance

from memwal.creating import MemWalOptions
from memwal.creating.tables import mem_wal_index
from memwal.errors import AlreadyExistsError, InvalidInputError, UnsupportedError
from memwal.index_details import read_index_details
from planner.ddl.committing import committed
from planner.ddl.options import table_options
from planner.ddl.reader import Reader
from planner.table import Table


@dataclass(frozen=True)
class EnableMemWal:
    """A MemWAL for a table that has none."""

    options: MemWalOptions
    given: Mapping[str, str]

    def check(self, table: Table) -> bool:
        """Refuse a second one, and options that don't fit the table."""
        base = table.base()
        if base.details is not None:
            if self.given.keys() == {"memwal"}:
                return False
            msg = (
                f"table {table.name!r} has a MemWAL already, and its regions may have rows: its options "
                "don't change. CREATE TABLE .. AS SELECT makes another table"
            )
            raise AlreadyExistsError(msg)
        mem_wal_index(base.dataset, self.options)
        return True

    def apply(self, table: Table) -> None:
        """Commit the index; of several gateways that try at once one does it, and the others find it done."""

        def enable(dataset: Any) -> None:  # noqa: ANN401 (lance types)
            if read_index_details(table.storage, dataset.version) is not None:
                return
            index = mem_wal_index(dataset, self.options)
            operation = lance.LanceOperation.CreateIndex([index], [])
            # Not on top of anything else that was committed meanwhile: it could be the same.
            lance.LanceDataset.commit(dataset, operation, read_version=dataset.version, max_retries=0)

        committed(table, "set up the MemWAL", enable)


def enabling(reader: Reader) -> EnableMemWal:
    """``SET (option = value, ..)``."""
    reader.accept("TBLPROPERTIES")
    given = reader.options()
    read = table_options(given)
    if read.primary_key is not None:
        msg = "the primary key of a table does not change: CREATE TABLE .. AS SELECT makes another table"
        raise UnsupportedError(msg)
    if read.mem_wal is None:
        msg = "a MemWAL can't be taken away: CREATE TABLE .. WITH (memwal = false) AS SELECT copies the rows"
        raise UnsupportedError(msg)
    if "memwal" not in given and "region_by" not in given:
        msg = f"SET ({', '.join(given)}) changes nothing: give memwal = true, and region_by = '..'"
        raise InvalidInputError(msg)
    return EnableMemWal(read.mem_wal, given)
