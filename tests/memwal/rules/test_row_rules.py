"""Rules of rows: what meets them, what doesn't, and what is said of it."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import CorruptDataError, InvalidInputError
from lance_gateway.memwal.rules import (
    CONSTRAINT,
    IS_JSON,
    IS_UUID,
    MAX_LENGTH,
    Constraint,
    ConstraintKind,
    RowRules,
    build_row_rules,
    list_constraints,
    list_lengths,
    read_row_rules,
)

SCHEMA = pa.schema(
    [
        pa.field(
            "id", pa.int64(), nullable=False, metadata={"lance-schema:unenforced-primary-key:position": "1"}
        ),
        pa.field("name", pa.string(), metadata={MAX_LENGTH: b"3"}),
        pa.field("code", pa.binary(), metadata={MAX_LENGTH: b"2"}),
        pa.field("ref", pa.string(), metadata={IS_UUID: b"true"}),
        pa.field("doc", pa.string(), metadata={IS_JSON: b"true"}),
        pa.field("qty", pa.int32()),
    ]
)
POSITIVE = Constraint("positive", ConstraintKind.CHECK, ("qty",), "qty > 0")
UUID = "c7c228cb-9836-4016-84a7-5f935143a86e"


def rows(**columns: list[object]) -> pa.Table:
    """Rows with these columns; the others are NULL."""
    count = len(next(iter(columns.values())))
    columns.setdefault("id", list(range(count)))
    return pa.table({name: columns.get(name, [None] * count) for name in SCHEMA.names}, schema=SCHEMA)


@pytest.fixture(scope="module")
def rules() -> RowRules:
    return build_row_rules("t", SCHEMA, [POSITIVE])


@pytest.mark.parametrize(
    "given",
    [
        rows(name=["abc", "äöü", "", None]),
        rows(code=[b"12", b"", None]),
        rows(ref=[UUID, None]),
        rows(doc=['{"a": [1, -2.5e3, null, true, "ä"]}', " 7 ", '""', "null", None]),
        rows(qty=[1, None]),
        rows(id=[]),
    ],
)
def test_values_within_limits_and_null_meet_all_rules(rules: RowRules, given: pa.Table) -> None:
    rules.check(given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            rows(id=[7, 8], name=["abc", "abcd"]),
            "column 'name' takes at most 3 characters, and the row with id = 8 has 4 there ('abcd')",
        ),
        (rows(id=[7], name=["äöüß"]), "the row with id = 7 has 4 there"),
        (rows(name=["x" * 1000]), "has 1000 there ('" + "x" * 39 + "...)"),
        (rows(code=[b"123"]), "column 'code' takes at most 2 bytes, and the row with id = 0 has 3 there"),
        (rows(ref=[UUID, UUID.upper()]), "column 'ref' takes UUIDs, in lower case with hyphens"),
        (rows(ref=[UUID + "0"]), "column 'ref' takes UUIDs"),
        (rows(id=[4, 5], doc=["[]", "{'a': 1}"]), "column 'doc' takes JSON, and the row with id = 5 has"),
        (rows(doc=["NaN"]), "NaN is not a number in JSON"),
        (rows(doc=["[" * 100_000]), "column 'doc' takes JSON"),
        (rows(doc=[""]), "column 'doc' takes JSON"),
        (
            rows(id=[1, 2, 3], qty=[1, 0, -1]),
            "the row with id = 2 violates constraint 'positive', CHECK (qty > 0) (qty = 0)",
        ),
    ],
)
def test_the_first_row_that_violates_a_rule_is_named(rules: RowRules, given: pa.Table, said: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        rules.check(given)
    assert said in str(caught.value)
    assert str(caught.value).startswith("table 't': ")


def test_rows_in_several_chunks_are_checked_in_their_order(rules: RowRules) -> None:
    given = pa.concat_tables([rows(id=[1], qty=[1]), rows(id=[2], qty=[2]), rows(id=[3], qty=[0])])
    with pytest.raises(InvalidInputError, match="id = 3"):
        rules.check(given)


def test_rows_without_a_key_are_named_by_their_number() -> None:
    plain = pa.schema([pa.field("a", pa.string(), metadata={MAX_LENGTH: b"1"})])
    with pytest.raises(InvalidInputError, match="row 2 has 2 there"):
        build_row_rules("t", plain, ()).check(pa.table({"a": ["x", "xy"]}, schema=plain))


def test_a_check_that_fails_for_a_row_names_the_row() -> None:
    check = Constraint("ratio", ConstraintKind.CHECK, ("qty",), "10 / qty > 0")
    with pytest.raises(InvalidInputError, match=r"'ratio' can't be checked for the row with id = 5: .*zero"):
        build_row_rules("t", SCHEMA, [POSITIVE, check]).check(rows(id=[4, 5], qty=[1, 0]))


def test_what_is_not_enforced_binds_nobody() -> None:
    noted = Constraint("positive", ConstraintKind.CHECK, ("qty",), "qty > 0", enforced=False)
    build_row_rules("t", SCHEMA, [noted]).check(rows(qty=[-1]))


def test_lengths_of_other_types_mean_nothing() -> None:
    odd = pa.schema(
        [
            pa.field("n", pa.int32(), metadata={MAX_LENGTH: b"3"}),
            pa.field("s", pa.string(), metadata={MAX_LENGTH: b"many"}),
        ]
    )
    assert list_lengths(odd) == {}


def test_constraints_come_back_from_a_table(tmp_path: Path) -> None:
    constraints = (
        Constraint("a b", ConstraintKind.CHECK, ("qty",), "qty > 0"),
        Constraint(
            "ref",
            ConstraintKind.FOREIGN_KEY,
            ("id",),
            enforced=False,
            referenced_table="u",
            referenced_columns=("k",),
        ),
        Constraint("uni", ConstraintKind.UNIQUE, ("id", "Qty"), enforced=False),
    )
    dataset = lance.write_dataset(SCHEMA.empty_table(), tmp_path / "t.lance")
    dataset.update_config({one.key: one.encode() for one in constraints})
    dataset = lance.dataset(tmp_path / "t.lance")
    assert list_constraints("t", dataset.config()) == constraints
    assert [one.definition for one in constraints] == [
        "CHECK (qty > 0)",
        "FOREIGN KEY (id) REFERENCES u (k) NOT ENFORCED",
        'UNIQUE (id, "Qty") NOT ENFORCED',
    ]
    found = read_row_rules("t", dataset)
    assert (found.key, dict(found.lengths), found.uuids) == (("id",), {"name": 3, "code": 2}, ("ref",))
    assert found.checks == constraints[:1]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"type": "TRIGGER", "enforced": true}'])
def test_a_constraint_that_is_not_understood_is_not_passed_over(text: str) -> None:
    with pytest.raises(CorruptDataError, match="constraint 'odd' of its configuration"):
        list_constraints("t", {f"{CONSTRAINT}odd": text})
