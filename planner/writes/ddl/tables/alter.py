"""``ALTER TABLE t ..``: each form in the module that does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import lance

from memwal.base.index_details import read_index_details
from memwal.creating import MemWalOptions
from memwal.creating.tables import give_up_regions, mem_wal_index
from memwal.errors import AlreadyExistsError, InvalidInputError, PreconditionError, UnsupportedError
from memwal.regions.manifest import list_regions
from planner.access.rights import Access
from planner.plans.query_planner import QueryPlanner
from planner.scans.settings import SessionSettings
from planner.tables.state.table import Table
from planner.writes.ddl.statement.options import table_options, truth
from planner.writes.ddl.statement.prepared_ddl import DONE, PreparedDefinition, check_writable, committed
from planner.writes.ddl.statement.reader import Reader
from planner.writes.ddl.tables.schema_changes import Change, adding, dropping, renaming, retyping
from planner.writes.dml.statement.prepared_write import WriteResult
from planner.writes.dml.statement.target import check_may_write

if TYPE_CHECKING:
    from planner.bridge.run_control import RunControl

DISCARD_REGIONS: Final = "discard_regions"


@dataclass(frozen=True)
class EnableMemWal:
    """A MemWAL for a table that has none.

    Attributes:
        options: how it is set up.
        given: what was said of it.
        discards: whether regions of an earlier MemWAL are given up; without that they are in the way.
    """

    options: MemWalOptions
    given: Mapping[str, str]
    discards: bool = False

    def check(self, table: Table) -> bool:
        """Refuse a second one, options that don't fit the table, and regions that would get into it."""
        left = list_regions(
            table.storage
        )  # Before the base: they are not of a MemWAL that others just set up.
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
        if left and not self.discards:
            raise _left(table, left)
        return True

    def apply(self, table: Table) -> None:
        """Commit the index; of several gateways that try at once one does it, and the others find it done."""
        left = list_regions(table.storage)
        if table.base().details is not None:
            return
        if left and not self.discards:
            raise _left(table, left)
        # Regions are sealed before the index records them as merged: this order must not change (ADR 33).
        given_up = give_up_regions(table.storage, left)

        def enable(dataset: Any) -> None:  # noqa: ANN401 (lance types)
            if read_index_details(table.storage, dataset.version) is not None:
                return
            index = mem_wal_index(dataset, self.options, given_up)
            operation = lance.LanceOperation.CreateIndex([index], [])
            # Not on top of anything else that was committed meanwhile: it could be the same.
            lance.LanceDataset.commit(dataset, operation, read_version=dataset.version, max_retries=0)

        committed(table, "set up the MemWAL", enable)


def enabling(reader: Reader) -> EnableMemWal:
    """``SET (option = value, ..)``."""
    reader.accept("TBLPROPERTIES")
    given = dict(reader.options())
    discards = truth(DISCARD_REGIONS, given.pop(DISCARD_REGIONS, "false"))
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
    return EnableMemWal(read.mem_wal, given, discards)


def _left(table: Table, region_ids: Sequence[str]) -> PreconditionError:
    return PreconditionError(
        f"table {table.name!r} has no MemWAL, but {len(region_ids)} regions of an earlier one, such as "
        f"{region_ids[0]}: the table was overwritten, restored, or its MemWAL was taken away. Their rows "
        "would become rows of this table. To have the table as it was, restore the version that had them "
        f"(system.versions lists versions); to give them up, ALTER TABLE {table.name} SET (memwal = true, "
        f"{DISCARD_REGIONS} = true, ..)"
    )


_FORMS: Mapping[str, Callable[[Reader], Change]] = MappingProxyType(
    {"ADD": adding, "DROP": dropping, "RENAME": renaming, "ALTER": retyping, "SET": enabling}
)


def prepare_alter(
    engine: QueryPlanner,
    sql: str,
    settings: SessionSettings,  # noqa: ARG001 - a family's face
    access: Access,
) -> PreparedDefinition:
    """Check a statement that changes a table.

    Raises:
        LanceGatewayError: what is wrong with it.
    """
    reader = Reader.of(sql)
    reader.expect("ALTER")
    what = reader.choose("what is altered", "TABLE", "VIEW", "INDEX")
    if what != "TABLE":
        raise reader.refused(f"ALTER {what} is not offered: drop it and make it anew; its name stands")
    if_exists = reader.accept("IF", "EXISTS")
    name = reader.table()
    change = _FORMS[reader.choose("what is to be done", *_FORMS)](reader)
    if reader.word == ",":
        raise reader.refused("One change at a time: a second one follows")
    reader.finish()
    check_writable(engine, name)
    if not (if_exists and not engine.visible(access).has_table(name)):
        check_may_write(engine, name, access)
        change.check(engine.catalog.table(name))

    def alter(_control: RunControl | None) -> WriteResult:
        if if_exists and not engine.visible(access).has_table(name):
            return DONE
        check_may_write(engine, name, access)
        table = engine.catalog.table(name)
        if not change.check(table):
            return DONE
        # Rows that were acknowledged are flushed under the columns that they were written with. Whoever wrote
        # meanwhile still has the old columns, and begins anew.
        writer = table.writer()
        writer.flush()
        try:
            change.apply(table)
        finally:
            writer.flush()
        return DONE

    return PreparedDefinition(sql, alter, name)
