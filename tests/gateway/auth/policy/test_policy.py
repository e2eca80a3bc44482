"""Policy files: what they grant, how grants combine, and what is refused."""

from pathlib import Path

import pytest

from lance_gateway.gateway.auth.policy import Policy, PolicyAccess, parse_policy
from lance_gateway.gateway.protocol.identity import ANONYMOUS, Identity
from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.planner.access.rights import TableAccess

POLICY = """
[roles.viewer]
grants = [
  { tables = ["orders", "sales_*"], rows = "region = 'EU'", hidden = ["ssn"], masks = { email = "'***'" } },
]

[roles.owner]
grants = [{ tables = ["orders"], rows = "owner = {user}" }]

[roles.everything]
grants = [{ tables = ["*"] }]

[roles.loader]
grants = [{ tables = ["orders"], read = false, write = true }]

[roles.operator]
admin = true

[users]
alice = ["operator"]
"""


def access(text: str, *roles: str, name: str = "u") -> PolicyAccess:
    return parse_policy(text, "policy.toml").access(Identity(name, frozenset(roles), "password"))


def test_nothing_is_granted_without_a_role() -> None:
    nobody = access(POLICY)
    assert nobody.of("orders") is None
    assert not nobody.is_admin
    assert not nobody.can_write("orders")


def test_a_role_that_the_policy_does_not_know_grants_nothing() -> None:
    assert access(POLICY, "root", "*", "viewer ").of("orders") is None


def test_a_grant_shows_rows_and_columns() -> None:
    viewer = access(POLICY, "viewer")
    expected = TableAccess("region = 'EU'", {"email": "'***'"}, frozenset({"ssn"}))
    assert viewer.of("orders") == expected
    assert viewer.of("sales_2026") == expected
    assert viewer.of("Orders") is None
    assert viewer.of("sales") is None


def test_the_name_of_the_user_is_a_literal() -> None:
    seen = access(POLICY, "owner", name="x' OR 'a' = 'a").of("orders")
    assert seen == TableAccess("owner = 'x'' OR ''a'' = ''a'")


def test_a_role_that_shows_all_lifts_the_restrictions_of_others() -> None:
    seen = access(POLICY, "viewer", "owner", "everything").of("orders")
    assert seen is not None
    assert seen.is_unrestricted


def test_rows_that_any_role_shows_are_seen() -> None:
    seen = access(POLICY, "viewer", "owner").of("orders")
    assert seen is not None
    assert seen.row_filter == "(region = 'EU') OR (owner = 'u')"


def test_each_row_shows_what_the_most_generous_role_shows_of_it() -> None:
    seen = access(POLICY, "viewer", "owner").of("orders")
    assert seen is not None
    # Rows of the region alone show the mask, and no social security number.
    assert seen.masks == {
        "email": """CASE WHEN (owner = 'u') THEN ("email") ELSE ('***') END""",
        "ssn": """CASE WHEN (owner = 'u') THEN ("ssn") END""",
    }
    assert seen.hidden_columns == frozenset()


@pytest.mark.parametrize(
    ("grants", "rows", "masks", "hidden"),
    [
        # All mask alike.
        (["masks = { c = 'a' }", "masks = { c = 'a' }"], None, {"c": "a"}, set()),
        # They differ: the first in the file.
        (["masks = { c = 'a' }", "masks = { c = 'b' }"], None, {"c": "a"}, set()),
        # One shows it to all.
        (["masks = { c = 'a' }", "masks = { d = 'b' }"], None, {}, set()),
        # A mask is more than nothing, wherever it stands.
        (["hidden = ['c']", "masks = { c = 'b' }"], None, {"c": "b"}, set()),
        (["hidden = ['c']", "hidden = ['c']"], None, {}, {"c"}),
        (["hidden = ['c']", "hidden = ['d']"], None, {}, set()),
        # Masks that count for different rows.
        (
            ["rows = 'x = 1', masks = { c = 'a' }", "rows = 'x = 2', masks = { c = 'b' }"],
            "(x = 1) OR (x = 2)",
            {"c": "CASE WHEN (x = 1) THEN (a) ELSE (b) END"},
            set(),
        ),
        (
            ["rows = 'x = 1', masks = { c = 'a' }", "rows = 'x = 2', masks = { c = 'a' }"],
            "(x = 1) OR (x = 2)",
            {"c": "a"},
            set(),
        ),
        # The unmasked rows are fewer than those that are seen.
        (
            ["rows = 'x = 1'", "masks = { c = 'a' }"],
            None,
            {"c": 'CASE WHEN (x = 1) THEN ("c") ELSE (a) END'},
            set(),
        ),
        (["rows = 'x = 1'", "hidden = ['c']"], None, {"c": 'CASE WHEN (x = 1) THEN ("c") END'}, set()),
        (["rows = 'x = 1'", "rows = 'x = 1', hidden = ['c']"], "x = 1", {}, set()),
    ],
)
def test_grants_combine(grants: list[str], rows: str | None, masks: dict[str, str], hidden: set[str]) -> None:
    roles = "".join(
        f'[roles.r{number}]\ngrants = [{{ tables = ["t"], {grant} }}]\n'
        for number, grant in enumerate(grants)
    )
    one_role = "[roles.r]\ngrants = [" + ", ".join(f'{{ tables = ["t"], {grant} }}' for grant in grants) + "]"
    expected = TableAccess(rows, masks, frozenset(hidden))
    assert access(roles, "r0", "r1").of("t") == expected
    assert access(one_role, "r").of("t") == expected


def test_writing_is_granted_apart() -> None:
    loader = access(POLICY, "loader")
    assert loader.can_write("orders")
    assert not loader.can_write("other")
    assert loader.of("orders") is None
    assert not access(POLICY, "everything").can_write("orders")


def test_the_file_gives_roles_to_users_as_well() -> None:
    assert access(POLICY, name="alice").is_admin
    assert not access(POLICY, "viewer", name="bob").is_admin


def test_the_anonymous_have_what_the_file_gives_them() -> None:
    policy = parse_policy(POLICY + 'anonymous = ["viewer"]\n', "p")
    assert policy.access(ANONYMOUS).of("orders") is not None
    assert policy.access(ANONYMOUS).user == "anonymous"


def test_a_principal_has_one_access_while_the_policy_lasts() -> None:
    policy = parse_policy(POLICY, "p")
    first = policy.access(Identity("u", frozenset({"viewer"}), "jwt"))
    assert policy.access(Identity("u", frozenset({"viewer", "unknown"}), "token")) is first
    assert policy.access(Identity("u", frozenset({"owner"}), "jwt")) is not first
    assert policy.access(Identity("v", frozenset({"viewer"}), "jwt")) is not first
    assert first.of("orders") is first.of("orders")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("roles = 1", "roles: Input should be a valid dictionary"),
        ("[role.x]", "role: there is no such key"),
        ("[roles.x]\ngrant = []", "roles.x.grant: there is no such key"),
        ("[roles.x]\ngrants = [{}]", "roles.x.grants.0.tables: it is missing"),
        ("[roles.x]\ngrants = [{ tables = [] }]", "roles.x.grants.0.tables: .*at least 1"),
        ("[roles.x]\ngrants = [{ tables = [''] }]", "a pattern is empty: name tables, such as"),
        ("[roles.x]\ngrants = [{ tables = ['t'], rows = '' }]", r"grants.0.rows: .*it is empty"),
        ("[roles.x]\ngrants = [{ tables = ['t'], rows = 'a =' }]", "grants.0.rows: .*does not parse"),
        ("[roles.x]\ngrants = [{ tables = ['t'], masks = { c = '' } }]", "grants.0.masks.c: .*it is empty"),
        ("[roles.x]\ngrants = [{ tables = ['t'], row = 'a = 1' }]", "grants.0.row: there is no such key"),
        ("[roles.x]\ngrants = [{ tables = ['t'], read = false }]", "it grants nothing"),
        (
            "[roles.x]\ngrants = [{ tables = ['t'], read = false, rows = 'a' }]",
            "restricts reading but grants",
        ),
        ("[roles.x]\ngrants = [{ tables = ['t'], masks = { c = '1' }, hidden = ['c'] }]", "'c' is both"),
        ("[users]\nalice = ['x']", "user 'alice' has the role 'x', which does not exist"),
        ("[roles.x\n", "policy.toml is not valid TOML"),
    ],
)
def test_nonsense_is_refused_by_name(text: str, complaint: str) -> None:
    with pytest.raises(InvalidInputError, match=complaint) as raised:
        parse_policy(text, "policy.toml")
    assert "policy.toml" in str(raised.value)


def test_an_empty_policy_shows_nothing(tmp_path: Path) -> None:
    assert isinstance(parse_policy("", str(tmp_path)), Policy)
    assert access("", "admin").of("orders") is None
