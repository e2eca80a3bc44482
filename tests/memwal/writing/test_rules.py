"""Rules of a table bind all of its writers, also those that were open before a rule was committed."""

from collections.abc import Callable

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.memwal.rules import MAX_LENGTH, Constraint, ConstraintKind
from lance_gateway.memwal.writing import Changes, TableWriter
from lance_gateway.memwal.writing.region import ownership
from tests.memwal.writing.reading import rows_by_key
from tests.memwal.written import WrittenTable

Writing = Callable[..., TableWriter]
POSITIVE = Constraint("positive", ConstraintKind.CHECK, ("qty",), "qty > 0")


def rows(table: WrittenTable, qty: int, name: str = "", *, keys: range = range(1)) -> pa.Table:
    return table.rows(id=list(keys), qty=[qty] * len(keys), name=[name] * len(keys))


def add_rule(table: WrittenTable) -> None:
    table.dataset.update_config({POSITIVE.key: POSITIVE.encode()})


def test_rows_that_violate_a_rule_are_refused_whole(table: WrittenTable, writing: Writing):
    table.dataset.update_field_metadata({"name": {MAX_LENGTH.decode(): "3"}})
    add_rule(table)
    writer = writing(table)
    writer.write(Changes(rows(table, 1, "abc")))
    for bad in (rows(table, 0, keys=range(5, 9)), rows(table, 1, "abcd")):
        with pytest.raises(InvalidInputError):
            writer.write(Changes(pa.concat_tables([rows(table, 2, keys=range(1, 5)), bad])))
    assert {key: row["qty"] for key, row in rows_by_key(table).items()} == {0: 1}


def test_keys_are_deleted_whatever_the_rules_say(table: WrittenTable, writing: Writing):
    writing(table).write(Changes(rows(table, -1)))
    add_rule(table)
    writing(table).write(Changes(deletes=rows(table, -1).select(["id"])))
    assert rows_by_key(table) == {}


def test_who_lost_a_region_learns_of_a_rule_when_it_claims_it_back(table: WrittenTable, writing: Writing):
    first, second = writing(table), writing(table)
    first.write(Changes(rows(table, 1)))
    add_rule(table)
    second.write(Changes(rows(table, 2)))  # claims the region
    with pytest.raises(InvalidInputError, match="violates constraint 'positive'"):
        first.write(Changes(rows(table, 0)))
    assert rows_by_key(table)[0]["qty"] == 2
    first.write(Changes(rows(table, 3)))
    assert rows_by_key(table)[0]["qty"] == 3


@pytest.mark.parametrize("oversized", [False, True])
def test_a_rule_that_comes_before_the_claim_binds_it(
    table: WrittenTable, writing: Writing, monkeypatch: pytest.MonkeyPatch, oversized: bool
):
    writer = writing(table, max_memtable_rows=2 if oversized else 100)
    opened = ownership.open_claim

    def open_claim(*args: object) -> object:
        # The table was opened, and the region is not claimed yet.
        add_rule(table)
        return opened(*args)

    monkeypatch.setattr(ownership, "open_claim", open_claim)
    with pytest.raises(InvalidInputError, match="violates constraint 'positive'"):
        writer.write(Changes(rows(table, 0, keys=range(5 if oversized else 1))))
    assert rows_by_key(table) == {}


def test_a_rule_that_is_gone_binds_nobody(table: WrittenTable, writing: Writing):
    add_rule(table)
    writer = writing(table)
    writer.write(Changes(rows(table, 1)))
    table.dataset.delete_config_keys([POSITIVE.key])
    writer.write(Changes(rows(table, 0)))
    assert rows_by_key(table)[0]["qty"] == 0


def test_a_rule_that_came_before_the_claim_and_is_gone_binds_nobody(
    table: WrittenTable, writing: Writing, monkeypatch: pytest.MonkeyPatch
):
    writer = writing(table)
    opened = ownership.open_claim

    def open_claim(*args: object) -> object:
        add_rule(table)
        return opened(*args)

    monkeypatch.setattr(ownership, "open_claim", open_claim)
    writer.write(Changes(rows(table, 1)))
    table.dataset.delete_config_keys([POSITIVE.key])
    writer.write(Changes(rows(table, 0)))
    assert rows_by_key(table)[0]["qty"] == 0
