"""A table together with what one principal may see of it: the only form in which its rows can be read."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import pyarrow as pa

from memwal.creating import not_null_columns
from memwal.errors import InvalidInputError, PreconditionError
from planner.access import TableAccess
from planner.base_table import BaseTable
from planner.table import Table
from planner.table_policy import TablePolicy, plan_policy

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SecuredTable:
    """A table handle that can't be used without its restrictions.

    Args:
        table: in the catalog.
        access: what is seen of it.
    """

    table: Table
    access: TableAccess

    @property
    def name(self) -> str:
        """In the catalog."""
        return self.table.name

    def base(self) -> BaseTable:
        """The newest version of the base table; see `Table.base`."""
        return self.table.base()

    def policy(self, base: BaseTable) -> TablePolicy | None:
        """How the restrictions are applied to rows of this version; None where there are none.

        Raises:
            PreconditionError: they don't fit the version's columns. Nothing of the table is shown then.
        """
        if self.access.is_unrestricted:
            return None
        try:
            return plan_policy(base.schema, self.access)
        except InvalidInputError as error:
            # The text of a policy is not for those whom it restricts.
            logger.error("the access policy of table %r can't be applied: %s", self.name, error)  # noqa: TRY400
            raise misfit(self.name) from None

    def visible_schema(self, base: BaseTable) -> pa.Schema:
        """Columns of this version that exist for the principal.

        Raises:
            PreconditionError: see `policy`.
        """
        policy = self.policy(base)
        return base.schema if policy is None else policy.schema

    def declared_schema(self) -> pa.Schema:
        """Visible columns of the newest version, as the table declares them.

        Raises:
            PreconditionError: see `policy`.
        """
        base = self.base()
        declared: pa.Schema = base.dataset.schema
        policy = self.policy(base)
        if policy is None:
            return declared
        keyed = self.primary_key() == base.primary_key
        fields = [declared.field(name) for name in policy.schema.names]
        # What is not a key to the principal is not declared as part of one either.
        return pa.schema(fields if keyed else [field.remove_metadata() for field in fields])

    def required_columns(self, base: BaseTable) -> frozenset[str]:
        """Columns of this version in which NULL is refused; none where a policy restricts what is shown."""
        if not self.access.is_unrestricted:
            return frozenset()
        return frozenset(not_null_columns(base.dataset.schema))

    def primary_key(self) -> tuple[str, ...]:
        """Key columns, in key order; () unless all of them are shown, with their true values."""
        key = self.base().primary_key
        concealed = self.access.hidden_columns | self.access.masks.keys()
        return () if concealed.intersection(key) else key


def check_table_access(table: Table, access: TableAccess) -> None:
    """Whether restrictions fit the newest version of a table.

    Raises:
        InvalidInputError: what does not fit, with the policy's own words: for its author, not for users.
    """
    try:
        plan_policy(table.base().schema, access)
    except InvalidInputError as error:
        raise InvalidInputError(f"table {table.name!r}: {error}") from error


def misfit(table: str) -> PreconditionError:
    """What users are told of a policy that can't be applied."""
    return PreconditionError(
        f"the access policy of table {table!r} does not fit the table: none of its rows are shown until an "
        "administrator corrects the policy (the log of the gateway says what is wrong)"
    )
