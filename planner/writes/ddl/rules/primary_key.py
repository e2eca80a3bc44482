"""``ALTER TABLE t ADD PRIMARY KEY (..)``: a key for a table that has none.

The rows are checked in one version, and the key is committed as the version that follows it.
"""

from __future__ import annotations

from dataclasses import dataclass

import lance
import pyarrow as pa

from lance_gateway.memwal.base.table_place import keep_in_place
from lance_gateway.memwal.base.versions import ATTEMPTS, commit_next
from lance_gateway.memwal.creating import declare_key
from lance_gateway.memwal.creating.fields import replace_fields
from lance_gateway.memwal.errors import AlreadyExistsError, PreconditionError, UnavailableError
from lance_gateway.planner.sql.text.tokens import quote
from lance_gateway.planner.tables.state.table import Table
from lance_gateway.planner.writes.ddl.statement import FindRows, check_column
from lance_gateway.planner.writes.dml.reading.read_rows import format_key

_COUNT = "rows#"


@dataclass(frozen=True)
class AddPrimaryKey:
    """ADD PRIMARY KEY; the columns become NOT NULL.

    Attributes:
        columns: the key, in its order.
    """

    columns: tuple[str, ...]

    def check(self, table: Table) -> bool:
        """Refuse a second key, columns that can't be one, and tables with a MemWAL."""
        base = table.base()
        if base.primary_key:
            msg = (
                f"table {table.name!r} has the primary key ({', '.join(base.primary_key)}), which does not "
                "change: CREATE TABLE .. AS SELECT makes another table"
            )
            raise AlreadyExistsError(msg)
        if base.details is not None:
            msg = (
                f"table {table.name!r} has a MemWAL, whose log has rows without a key: CREATE TABLE .. "
                f"(PRIMARY KEY ({', '.join(self.columns)})) AS SELECT makes a table with both"
            )
            raise PreconditionError(msg)
        for name in self.columns:
            check_column(base, name)
        declare_key(base.dataset.schema, self.columns)
        return True

    def apply(self, table: Table, find_rows: FindRows) -> None:
        """Check the rows and commit the key; again, if others commit meanwhile.

        Raises:
            PreconditionError: a key is NULL, or several rows have it; names it.
            UnavailableError: others committed each time.
        """
        for _ in range(ATTEMPTS):
            base = table.base()
            if not self.check(table):
                return
            self._refuse_rows(table, find_rows)
            if table.base() is not base:
                continue  # The rows may have been read in a later version.
            schema = replace_fields(base.dataset, declare_key(base.dataset.schema, self.columns))
            with keep_in_place(table.storage):
                is_committed = commit_next(table.storage, base.version, lance.LanceOperation.Project(schema))
            if is_committed:
                table.base()
                return
        msg = (
            f"others committed to table {table.name!r} {ATTEMPTS} times while its rows were checked: try "
            "again when it is written to less"
        )
        raise UnavailableError(msg)

    def _refuse_rows(self, table: Table, find_rows: FindRows) -> None:
        key = ", ".join(map(quote, self.columns))
        missing = " OR ".join(f"{quote(name)} IS NULL" for name in self.columns)
        found = find_rows(f"SELECT {key} FROM {table.name.sql} WHERE {missing} LIMIT 1")  # noqa: S608 - quoted
        if found.num_rows:
            raise self._build_error(table, f"a row has {_format(found)}: give it a value, or delete it")
        found = find_rows(
            f"SELECT {key}, count(*) AS {quote(_COUNT)} FROM {table.name.sql} "  # noqa: S608 - quoted
            f"GROUP BY {key} HAVING count(*) > 1 LIMIT 1"
        )
        if found.num_rows:
            count = found.column(_COUNT)[0].as_py()
            which = _format(found.select(list(self.columns)))
            raise self._build_error(table, f"{count} rows have {which}: change or delete all but one")

    def _build_error(self, table: Table, why: str) -> PreconditionError:
        key = ", ".join(self.columns)
        return PreconditionError(f"({key}) can't be the primary key of table {table.name!r}, since {why}")


def _format(rows: pa.Table) -> str:
    return format_key(rows).replace("None", "NULL")
