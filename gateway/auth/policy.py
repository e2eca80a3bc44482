"""Policy files: what roles may see and do.

```toml
[roles.analyst]
grants = [
  { tables = ["orders", "sales_*"], rows = "region = 'EU'", masks = { email = "'***'" }, hidden = ["ssn"] },
  { tables = ["tasks"], rows = "owner = {user}", write = true },
  { tables = ["archive.*"] },
]

[roles.operator]
admin = true

[users]
alice = ["analyst"]
```

A name without a schema is that of a table of `main`, and so is a pattern: `*` shows nothing of other schemas.
Without a grant, nothing is seen. A user with several grants for a table (of one role, or of several) sees
every row that one of them shows; and of each row, what the most generous of those that show this row shows:
the column itself before a mask, the mask of the first grant in the file before another, and any mask before
nothing.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated, Any

from cachetools import LRUCache
from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from lance_gateway.gateway.auth.files import Strict, read_toml
from lance_gateway.gateway.auth.policy_expressions import Expression
from lance_gateway.gateway.protocol.identity import Identity, check_name
from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError
from lance_gateway.memwal.storage.table_names import TableName, is_temporary_schema
from lance_gateway.planner.access.rights import TableAccess
from lance_gateway.planner.access.secured_table import check_table_access
from lance_gateway.planner.access.visible_catalog import check_view_access
from lance_gateway.planner.sql.text.tokens import quote
from lance_gateway.planner.tables.state.catalog import Catalog

_MAX_PRINCIPALS = 10_000
_MAX_TABLES = 1_000


def _parse_expression(text: object) -> object:
    if not isinstance(text, str):
        return text
    try:
        return Expression.parse(text)
    except InvalidInputError as error:
        raise ValueError(str(error)) from None


def _parse_name(text: str) -> str:
    try:
        return check_name(text)
    except InvalidInputError as error:
        raise ValueError(str(error)) from None


_Expression = Annotated[Expression, BeforeValidator(_parse_expression)]
_UserName = Annotated[str, BeforeValidator(_parse_name)]
_NonEmpty = Annotated[str, Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class TablePattern:
    """A pattern for the names of tables, with one for the names of their schemas."""

    schema: str
    table: str

    @staticmethod
    def parse(text: str) -> "TablePattern":
        """Read a pattern, whose parts are divided as those of names are.

        Raises:
            InvalidInputError: it has more parts than a name.
        """
        name = TableName.parse(text)
        return TablePattern(name.schema, name.table)

    def matches(self, name: TableName) -> bool:
        """Return whether a table has such a name; temporary ones are granted to their session alone."""
        return (
            not name.is_temporary
            and fnmatchcase(name.schema, self.schema)
            and fnmatchcase(name.table, self.table)
        )

    def matches_all(self, schema: str) -> bool:
        """Return whether all tables that a schema has or will have have such names."""
        return (
            not is_temporary_schema(schema) and fnmatchcase(schema, self.schema) and not self.table.strip("*")
        )


def _parse_pattern(text: object) -> object:
    if not isinstance(text, str):
        return text
    if not text:
        raise ValueError("a pattern is empty: name tables, such as 'orders', 'sales.*' or '*'")
    try:
        return TablePattern.parse(text)
    except InvalidInputError as error:
        raise ValueError(str(error)) from None


_Pattern = Annotated[TablePattern, BeforeValidator(_parse_pattern)]


class Grant(Strict):
    """Rights of a role on some tables.

    Args:
        tables: names of tables and views, as patterns with `*`, `?` and `[...]`. `sales.*` is all of the
            schema `sales`; a pattern without a schema is for the schema `main`.
        read: whether rows may be read.
        write: whether rows may be written.
        rows: the condition on rows that are seen; without one, all.
        masks: column -> what is seen in its place.
        hidden: columns that are not seen at all.
    """

    model_config = ConfigDict(**{**Strict.model_config, "arbitrary_types_allowed": True})

    tables: Annotated[tuple[_Pattern, ...], Field(min_length=1)]
    read: bool = True
    write: bool = False
    rows: _Expression | None = None
    masks: dict[_NonEmpty, _Expression] = Field(default_factory=dict)
    hidden: tuple[_NonEmpty, ...] = ()

    @model_validator(mode="after")
    def _check_grant(self) -> "Grant":
        both = sorted(set(self.masks) & set(self.hidden))
        if both:
            raise ValueError(f"column {both[0]!r} is both masked and hidden: choose one")
        if not self.read and (self.rows is not None or self.masks or self.hidden):
            raise ValueError(
                "it restricts reading but grants none: remove read = false, or rows, masks and hidden"
            )
        if not self.read and not self.write:
            raise ValueError("it grants nothing: allow read or write")
        return self

    def covers(self, table: str) -> bool:
        """Return whether the grant applies to a table."""
        name = TableName.parse(table)
        return any(pattern.matches(name) for pattern in self.tables)

    def covers_schema(self, schema: str) -> bool:
        """Return whether the grant applies to all tables that a schema has or will have."""
        return any(pattern.matches_all(schema) for pattern in self.tables)


class Role(Strict):
    """A role and its grants.

    Args:
        admin: whether they see and stop the statements of others.
        grants: on tables.
    """

    model_config = ConfigDict(**{**Strict.model_config, "arbitrary_types_allowed": True})

    admin: bool = False
    grants: tuple[Grant, ...] = ()


class _PolicyFile(Strict):
    roles: dict[_NonEmpty, Role] = Field(default_factory=dict)
    users: dict[_UserName, tuple[str, ...]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_roles(self) -> "_PolicyFile":
        for user, roles in self.users.items():
            for role in roles:
                if role not in self.roles:
                    raise ValueError(f"user {user!r} has the role {role!r}, which does not exist")
        return self


class PolicyAccess:
    """Access of one principal."""

    def __init__(self, user: str, roles: Sequence[Role]) -> None:
        self.user = user
        # Whether the principal sees and stops the statements of others.
        self.is_admin = any(role.admin for role in roles)
        self._grants = tuple(grant for role in roles for grant in role.grants)
        self._of = lru_cache(_MAX_TABLES)(self._resolve)
        self._roles = tuple(roles)

    def __reduce__(self) -> tuple[type, tuple[str, Sequence[Role]]]:
        """Return how to make the same rights in another process."""
        return PolicyAccess, (self.user, self._roles)

    def of(self, table: str) -> TableAccess | None:
        """Return the access to a table or view; None hides even its existence."""
        return self._of(table)

    def can_write(self, table: str) -> bool:
        """Return whether the principal may write rows of a table."""
        return any(grant.write and grant.covers(table) for grant in self._grants)

    def covers_schema(self, schema: str, *, to_write: bool = False) -> bool:
        """Return whether the principal sees, or may write, all tables that a schema has or will have."""
        return any(
            (grant.write if to_write else grant.read) and grant.covers_schema(schema)
            for grant in self._grants
        )

    def _resolve(self, table: str) -> TableAccess | None:
        grants = [grant for grant in self._grants if grant.read and grant.covers(table)]
        if not grants:
            return None
        views = [_View(grant, self.user) for grant in grants]
        # Ordered: the text of a mask must be the same each time.
        rows = _join_conditions(views)
        restricted = dict.fromkeys(column for view in views for column in view.restricted)
        masks: dict[str, str] = {}
        hidden: set[str] = set()
        for column in restricted:
            if all(column in view.hidden for view in views):
                hidden.add(column)
                continue
            seen = _build_column(column, views, rows)
            if seen != quote(column):
                masks[column] = seen
        return TableAccess(rows, MappingProxyType(masks), frozenset(hidden))


class _View:
    """The rows and columns that one grant shows to one principal."""

    def __init__(self, grant: Grant, user: str) -> None:
        self.rows = None if grant.rows is None else grant.rows.render(user)
        self.masks = {column: mask.render(user) for column, mask in grant.masks.items()}
        self.hidden = frozenset(grant.hidden)
        self.restricted = (*grant.masks, *grant.hidden)

    def find_expression(self, name: str) -> str | None:
        """Return the SQL expression of a column; None if it is hidden."""
        return None if name in self.hidden else self.masks.get(name, quote(name))


def _join_conditions(views: Sequence[_View]) -> str | None:
    conditions = dict.fromkeys(view.rows for view in views)
    if None in conditions:
        return None
    if len(conditions) == 1:
        return views[0].rows
    return " OR ".join(f"({condition})" for condition in conditions)


def _build_column(column: str, views: Sequence[_View], rows: str | None) -> str:
    """Return the SQL expression of a column: for each row, of the least restrictive view that shows the row.

    Args:
        column: that not all views hide.
        views: all that show rows of the table.
        rows: the condition on rows that any of them shows.
    """
    itself = quote(column)
    # Stable: among masks, the order of the file decides.
    visible = sorted(
        (view for view in views if view.find_expression(column) is not None),
        key=lambda view: view.find_expression(column) != itself,
    )
    branches: list[tuple[str | None, str]] = []
    for view in visible:
        expression = str(view.find_expression(column))
        # A view that shows all of these rows leaves none to the others.
        branches.append((None if view.rows == rows else view.rows, expression))
        if branches[-1][0] is None:
            break
    # The last one needs no condition: a row that is seen at all, is seen through one of the views.
    if len(visible) == len(views) or branches[-1][0] is None:
        branches[-1] = (None, branches[-1][1])
    # Nor do those before it that say the same.
    while len(branches) > 1 and branches[-1][0] is None and branches[-2][1] == branches[-1][1]:
        del branches[-2]
    if branches[0][0] is None:
        return branches[0][1]
    cases = "".join(
        f" WHEN ({condition}) THEN ({value})" for condition, value in branches if condition is not None
    )
    otherwise = "" if branches[-1][0] is not None else f" ELSE ({branches[-1][1]})"
    return f"CASE{cases}{otherwise} END"


class Policy:
    """Roles and their members.

    Args:
        roles: name -> role, in the order that decides between masks.
        users: name -> roles, besides those that come with an identity.
    """

    def __init__(self, roles: Mapping[str, Role], users: Mapping[str, Sequence[str]]) -> None:
        self._roles = dict(roles)
        self._users = dict(users)
        self._lock = threading.Lock()
        self._accesses: LRUCache[tuple[str, frozenset[str]], PolicyAccess] = LRUCache(_MAX_PRINCIPALS)

    @property
    def role_names(self) -> tuple[str, ...]:
        """The roles, in the order of the file."""
        return tuple(self._roles)

    def access(self, identity: Identity) -> PolicyAccess:
        """Return the access of a principal: the same object for the same name and roles.

        Roles that the policy does not know grant nothing.
        """
        names = identity.roles.union(self._users.get(identity.name, ())).intersection(self._roles)
        key = (identity.name, names)
        with self._lock:
            access = self._accesses.get(key)
            if access is None:
                roles = [role for name, role in self._roles.items() if name in names]
                access = PolicyAccess(identity.name, roles)
                self._accesses[key] = access
            return access


def parse_policy(text: str, where: str) -> Policy:
    """Parse the text of a policy file.

    Raises:
        InvalidInputError: what is wrong, and in which file.
    """
    file: Any = read_toml(text, where, _PolicyFile)
    return Policy(file.roles, file.users)


# Whoever gets a policy for a sample.
_SAMPLE = "somebody"


def find_policy_conflicts(policy: Policy, catalog: Catalog) -> list[str]:
    """Return one sentence for each role and table or view that contradict each other.

    Roles are looked at one by one. A combination of roles fits where each of them does, unless their masks
    for one column are of kinds that have nothing in common.
    """
    return [
        f"role {role!r}: {problem}"
        for role in policy.role_names
        for problem in _find_conflicts_of_role(policy, role, catalog)
    ]


def _find_conflicts_of_role(policy: Policy, role: str, catalog: Catalog) -> list[str]:
    access = policy.access(Identity(_SAMPLE, frozenset({role}), "none"))
    problems = []
    for name in catalog.table_names():
        granted = access.of(name)
        if granted is not None:
            try:
                check_table_access(catalog.table(name), granted)
            except LanceGatewayError as error:
                problems.append(" ".join(str(error).split()))
    for name in catalog.view_names():
        granted = access.of(name)
        if granted is not None:
            try:
                check_view_access(name, granted)
            except LanceGatewayError as error:
                problems.append(str(error))
    return problems
