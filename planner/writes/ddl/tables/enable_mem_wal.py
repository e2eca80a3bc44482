"""``ALTER TABLE t SET (memwal = true, ..)``: a MemWAL for a table that has none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import lance

from lance_gateway.memwal.base.index_details import read_index_details
from lance_gateway.memwal.base.manifest_names import OPTION
from lance_gateway.memwal.creating import MemWalOptions
from lance_gateway.memwal.creating.tables import build_mem_wal_index, give_up_regions
from lance_gateway.memwal.errors import (
    AlreadyExistsError,
    InvalidInputError,
    PreconditionError,
    UnsupportedError,
)
from lance_gateway.memwal.quantities import parse_truth
from lance_gateway.memwal.regions.manifest import list_regions
from lance_gateway.planner.tables.state.table import Table
from lance_gateway.planner.writes.ddl.options import (
    STABLE_ROW_IDS,
    parse_key_index,
    parse_value,
    read_table_options,
)
from lance_gateway.planner.writes.ddl.statement import Reader, commit_change
from lance_gateway.planner.writes.ddl.tables.key_indexes import SetKeyIndex
from lance_gateway.planner.writes.ddl.tables.maintained_indexes import SetMaintainedIndexes
from lance_gateway.planner.writes.ddl.tables.manifest_names import RenameManifests

DISCARD_REGIONS: Final = "discard_regions"


@dataclass(frozen=True)
class EnableMemWal:
    """SET (memwal = true, ..): a MemWAL for a table that has none.

    Attributes:
        options: options of the MemWAL.
        option_values: options as they are written in the statement.
        discards: whether regions of an earlier MemWAL are discarded; without that they are an error.
    """

    options: MemWalOptions
    option_values: Mapping[str, str]
    discards: bool = False

    def check(self, table: Table) -> bool:
        """Refuse a second MemWAL, options that don't fit the table, and regions of an earlier MemWAL."""
        # Listed before the base is read, so that they are not those of a MemWAL just enabled by others.
        leftover = list_regions(table.storage)
        base = table.base()
        if base.details is not None:
            if self.option_values.keys() == {"memwal"}:
                return False
            msg = (
                f"table {table.name!r} has a MemWAL already, and its regions may have rows, which would "
                "not be found by other values: its options don't change, but for maintained_indexes by "
                "itself. CREATE TABLE .. CLONE .. WITH (region_by = '..') makes another table"
            )
            raise AlreadyExistsError(msg)
        build_mem_wal_index(base.dataset, self.options)
        if leftover and not self.discards:
            raise _leftover_regions_error(table, leftover)
        return True

    def apply(self, table: Table) -> None:
        """Commit the MemWAL index, unless another gateway has committed it meanwhile."""
        leftover = list_regions(table.storage)
        if table.base().details is not None:
            return
        if leftover and not self.discards:
            raise _leftover_regions_error(table, leftover)
        # Regions are sealed before the index records them as merged: this order must not change (ADR 33).
        given_up = give_up_regions(table.storage, leftover)

        def enable(dataset: Any) -> None:  # noqa: ANN401 - lance types
            if read_index_details(table.storage, dataset.version) is not None:
                return
            index = build_mem_wal_index(dataset, self.options, given_up)
            operation = lance.LanceOperation.CreateIndex([index], [])
            # No retries: another commit could be the same one.
            lance.LanceDataset.commit(dataset, operation, read_version=dataset.version, max_retries=0)

        commit_change(table, "set up the MemWAL", enable)


def read_set(reader: Reader) -> EnableMemWal | SetKeyIndex | SetMaintainedIndexes | RenameManifests:
    """Read ``SET (option = value, ..)``."""
    if reader.word == "SCHEMA":
        raise reader.unsupported_error(
            "A table does not move between schemas: CREATE TABLE other.t AS SELECT copies it, and DROP TABLE "
            "drops the old one"
        )
    reader.take("TBLPROPERTIES")
    option_values = dict(reader.options())
    if option_values.keys() == {"key_index"}:
        return SetKeyIndex(parse_key_index(option_values["key_index"]))
    if option_values.keys() == {"maintained_indexes"}:
        return SetMaintainedIndexes.parse(option_values["maintained_indexes"])
    if option_values.keys() == {OPTION}:
        return RenameManifests.parse(option_values[OPTION])
    if "key_index" in option_values:
        raise InvalidInputError("key_index is set by a statement of its own: leave the other options out")
    if STABLE_ROW_IDS in option_values:
        msg = (
            f"{STABLE_ROW_IDS} is said when a table is made, and does not change: CREATE TABLE .. CLONE .. "
            f"WITH ({STABLE_ROW_IDS} = true) makes another table"
        )
        raise UnsupportedError(msg)
    discards = parse_value(DISCARD_REGIONS, option_values.pop(DISCARD_REGIONS, "false"), parse_truth)
    options = read_table_options(option_values)
    if options.primary_key is not None:
        msg = "the primary key of a table does not change: CREATE TABLE .. AS SELECT makes another table"
        raise UnsupportedError(msg)
    if options.mem_wal is None:
        msg = "a MemWAL can't be taken away: CREATE TABLE .. WITH (memwal = false) AS SELECT copies the rows"
        raise UnsupportedError(msg)
    if "memwal" not in option_values and "region_by" not in option_values:
        msg = f"SET ({', '.join(option_values)}) changes nothing: give memwal = true, and region_by = '..'"
        raise InvalidInputError(msg)
    return EnableMemWal(options.mem_wal, option_values, discards)


def _leftover_regions_error(table: Table, region_ids: Sequence[str]) -> PreconditionError:
    return PreconditionError(
        f"table {table.name!r} has no MemWAL, but {len(region_ids)} regions of an earlier one, such as "
        f"{region_ids[0]}: the table was overwritten, restored, or its MemWAL was taken away. Their rows "
        "would become rows of this table. To have the table as it was, restore the version that had them "
        f"(system.versions lists versions); to give them up, ALTER TABLE {table.name} SET (memwal = true, "
        f"{DISCARD_REGIONS} = true, ..)"
    )
