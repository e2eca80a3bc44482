"""A table as one principal sees it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.memwal.rules import drop_default
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.planner.access.rights import TableAccess
from lance_gateway.planner.access.table_policy import TablePolicy, plan_policy, policy_mismatch_error
from lance_gateway.planner.tables.sources.base_table import BaseTable
from lance_gateway.planner.tables.state.extended_tables import ROW_NUMBER
from lance_gateway.planner.tables.state.table import Table
from lance_gateway.planner.tables.state.table_state import Confirmed

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class SecuredTable:
    """A table together with its restrictions; a handle keeps the version that it has read.

    Args:
        table: in the catalog.
        access: of the principal to the table.
    """

    table: Table
    access: TableAccess

    @property
    def name(self) -> TableName:
        """Return the name in the catalog."""
        return self.table.name

    @property
    def base(self) -> BaseTable:
        """Return the version of the base table that was the newest at the first call."""
        known: BaseTable | None = vars(self).get("_newest")
        if known is None:
            # In Python 3.11, a cached property holds one lock for all objects while storage is asked.
            known = vars(self).setdefault("_newest", self.table.base())
        return known

    @property
    def confirmed(self) -> Confirmed | None:
        """Return the state that `confirm` has confirmed, if any."""
        found: Confirmed | None = vars(self).get("_confirmed")
        return found

    def confirm(self) -> None:
        """Find the newest version; in an object store, confirm the table's state for a strong read as well.

        Later calls do nothing.

        Raises:
            LanceGatewayError: something can't be read.
        """
        if "_newest" in vars(self):
            return
        confirmed = self.table.confirm()
        vars(self).update(
            _confirmed=confirmed, _newest=self.table.base() if confirmed is None else confirmed.base
        )

    def policy(self, base: BaseTable) -> TablePolicy | None:
        """Plan the restrictions for rows of a version; return None if there are none.

        Raises:
            PreconditionError: they don't fit the columns of the version, so no row may be shown.
        """
        if self.access.is_unrestricted:
            return None
        try:
            return plan_policy(base.schema, self.access, base.uuid_columns)
        except InvalidInputError as error:
            # Principals must not see the text of a policy that restricts them.
            logger.error("the access policy of table %r can't be applied: %s", self.name, error)  # noqa: TRY400
            raise policy_mismatch_error(self.name) from None

    @cached_property
    def visible_schema(self) -> pa.Schema:
        """Return the columns that exist for the principal.

        Raises:
            PreconditionError: as `policy`.
        """
        policy = self.policy(self.base)
        return self.base.schema if policy is None else policy.schema

    @cached_property
    def declared_schema(self) -> pa.Schema:
        """Return the visible columns, as the table declares them, but masked ones without a default.

        Raises:
            PreconditionError: as `policy`.
        """
        declared: pa.Schema = self.base.declared_schema
        if ROW_NUMBER in self.base.schema.names and ROW_NUMBER not in declared.names:
            declared = declared.append(self.base.schema.field(ROW_NUMBER))
        policy = self.policy(self.base)
        if policy is None:
            return declared
        has_key = self.primary_key == self.base.primary_key
        fields = [
            drop_default(declared.field(name)) if name in policy.masks else declared.field(name)
            for name in policy.schema.names
        ]
        # Without a visible key, no field may be declared as part of it.
        return pa.schema(fields if has_key else [field.remove_metadata() for field in fields])

    @property
    def visible_fields(self) -> Mapping[int, str]:
        """Return field id -> name of the visible columns."""
        visible = self.visible_schema.names
        return {number: name for number, name in self.base.field_names.items() if name in visible}

    @property
    def required_columns(self) -> frozenset[str]:
        """Return the NOT NULL columns; none if a policy restricts the table."""
        if not self.access.is_unrestricted:
            return frozenset()
        return self.base.not_null_columns

    @property
    def known_rows(self) -> int:
        """Return the number of stored rows, and of fresh ones as far as they were read before."""
        last = self.table.last_snapshot
        return self.base.physical_rows + (0 if last is None else last.fresh_rows)

    @property
    def primary_key(self) -> tuple[str, ...]:
        """Return the key columns, in key order; () if any of them is hidden or masked."""
        key = self.base.primary_key
        restricted = self.access.hidden_columns | self.access.masks.keys()
        return () if restricted.intersection(key) else key

    @property
    def lineage_columns(self) -> tuple[str, ...]:
        """Return the columns of row lineage that may be named; () if a policy restricts the table."""
        return self.base.lineage_columns if self.access.is_unrestricted else ()

    def is_like(self, other: SecuredTable) -> bool:
        """Return whether a statement prepared with the other handle is valid with this one."""
        base, other_base = self.base, other.base
        return base is other_base or (
            base.place == other_base.place
            and base.schema.equals(other_base.schema)
            and base.field_names == other_base.field_names
            and base.primary_key == other_base.primary_key
            and base.lineage_columns == other_base.lineage_columns
        )


def check_table_access(table: Table, access: TableAccess) -> None:
    """Check that restrictions fit the newest version of a table.

    Raises:
        InvalidInputError: they don't fit; the message quotes the policy, so it is for administrators only.
    """
    try:
        base = table.base()
        plan_policy(base.schema, access, base.uuid_columns)
    except InvalidInputError as error:
        raise InvalidInputError(f"table {table.name!r}: {error}") from error
