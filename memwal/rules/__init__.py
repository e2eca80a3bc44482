"""What a table demands of its rows, and gives to those that lack a column.

- `row_rules`: lengths, UUIDs, JSON and checks, which every writer of this package applies.
- `constraints`: named constraints in a table's configuration.
- `defaults`: values of columns that a row does not give.
- `identity`: columns that number their rows.
- `initial_values`: values of columns in rows that are older than they.
- `expressions`: SQL expressions over rows, evaluated by DataFusion.

Lengths, UUIDs, JSON and defaults are in the metadata of their columns; see `COLUMN_RULES`.
"""

from lance_gateway.memwal.rules.constraints import (
    CONSTRAINT,
    Constraint,
    ConstraintKind,
    find_constraint_on,
    list_constraints,
)
from lance_gateway.memwal.rules.defaults import (
    DEFAULT,
    ColumnDefault,
    Default,
    DefaultValues,
    drop_default,
    list_defaults,
)
from lance_gateway.memwal.rules.identity import (
    IDENTITY,
    Identity,
    IdentityDefault,
    IdentityNumbers,
    list_identities,
)
from lance_gateway.memwal.rules.initial_values import (
    INITIAL_VALUE,
    InitialValue,
    build_initial_column,
    list_initial_values,
)
from lance_gateway.memwal.rules.row_rules import (
    COLUMN_RULES,
    IS_JSON,
    IS_UUID,
    MAX_LENGTH,
    UUID_PATTERN,
    RowRules,
    build_row_rules,
    list_lengths,
    list_uuids,
    read_row_rules,
)

__all__ = [
    "COLUMN_RULES",
    "CONSTRAINT",
    "DEFAULT",
    "IDENTITY",
    "INITIAL_VALUE",
    "IS_JSON",
    "IS_UUID",
    "MAX_LENGTH",
    "UUID_PATTERN",
    "ColumnDefault",
    "Constraint",
    "ConstraintKind",
    "Default",
    "DefaultValues",
    "Identity",
    "IdentityDefault",
    "IdentityNumbers",
    "InitialValue",
    "RowRules",
    "build_initial_column",
    "build_row_rules",
    "drop_default",
    "find_constraint_on",
    "list_constraints",
    "list_defaults",
    "list_identities",
    "list_initial_values",
    "list_lengths",
    "list_uuids",
    "read_row_rules",
]
