"""Rows and values: what a principal sees is the newest version of what its policy shows, on every path."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.planner.access.rights import FULL_ACCESS, TableAccess
from lance_gateway.planner.access.secured_table import check_table_access
from lance_gateway.planner.engine import QueryEngine, SessionSettings
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.gateway.conftest import TYPES, typed_rows
from tests.planner.access_lake import (
    ANALYST,
    FILTERED,
    KEYLESS,
    MASKED,
    VISIBLE,
    Ask,
    asker,
    write_lake,
)
from tests.support.judging.principals import create_principal
from tests.support.lake.manifests import SpecField
from tests.support.lake.tables import LsmTable, by_spec, key_field
from tests.support.processes.writer_process import WriterProcess


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory, shared_writers: WriterProcess) -> Iterator[QueryEngine]:
    root = tmp_path_factory.mktemp("access")
    write_lake(root, shared_writers)
    engine = QueryEngine(Catalog.open(str(root)), partitions=2)
    yield engine
    engine.close()


@pytest.fixture
def ask(engine: QueryEngine) -> Ask:
    return asker(engine)


def ids(rows: list[tuple[int, ...]]) -> list[int]:
    return [row[0] for row in rows]


def test_a_scan_shows_the_newest_versions_that_pass(ask: Ask):
    assert ids(ask("SELECT id FROM orders")) == VISIBLE


def test_a_row_whose_newest_version_is_hidden_does_not_come_back_as_an_older_one(ask: Ask):
    for number in (2, 3, 6):
        assert ask(f"SELECT id FROM orders WHERE id = {number}") == []
        assert ask(f"SELECT id FROM orders WHERE id = {number} AND tenant = 'a'") == []


def test_a_row_whose_newest_version_is_visible_is_seen(ask: Ask):
    for number in (4, 5, 9):
        assert ask(f"SELECT tenant, amount FROM orders WHERE id = {number}") == [("a", 10 + number)]


@pytest.mark.parametrize(
    "settings",
    [SessionSettings(region_pruning=False), SessionSettings(max_staleness_ms=60_000)],
    ids=["without pruning", "with a kept snapshot"],
)
def test_settings_change_nothing(engine: QueryEngine, settings: SessionSettings):
    for sql in ("SELECT id FROM orders ORDER BY id", "SELECT id FROM orders WHERE id IN (4, 5, 0, 9, 2, 7)"):
        found = engine.prepare(sql, settings, ANALYST).execute().read_all().column(0).to_pylist()
        assert sorted(found) == VISIBLE


def test_masks_stand_in_for_values_wherever_they_are_used(ask: Ask):
    assert ask("SELECT id, email, code FROM orders ORDER BY id") == [(n, "u***", "0") for n in VISIBLE]
    assert ask("SELECT count(*) FROM orders WHERE email = 'u0@x.org'") == [(0,)]
    assert ask("SELECT count(*) FROM orders WHERE email LIKE '%@%'") == [(0,)]
    assert ask("SELECT count(*) FROM orders WHERE email = 'u***' AND id > 3") == [(3,)]
    assert ask("SELECT email, count(*) FROM orders GROUP BY email") == [("u***", 4)]
    assert ask("SELECT max(email), min(code) FROM orders") == [("u***", "0")]
    assert ask("SELECT x.id FROM orders x JOIN orders y ON x.email = y.email AND y.id = 0") == [
        (number,) for number in VISIBLE
    ]


def test_every_boolean_form_of_a_condition_on_a_mask_meets_the_mask(ask: Ask):
    for condition in (
        "email = 'u4@x.org' OR email = 'u5@x.org'",
        "email IN ('u4@x.org', 'u5@x.org')",
        "NOT (email <> 'u4@x.org')",
        "email > 'u4' AND email < 'u5'",
        "email BETWEEN 'u4' AND 'u5'",
        "(id = 4 AND email = 'u4@x.org') OR (id = 4 AND email = 'u5@x.org')",
        "CASE WHEN email = 'u4@x.org' THEN TRUE ELSE FALSE END",
        "code = '7'",
        "code <> '0' AND id = 4",
        "code IS NULL",
    ):
        assert ask(f"SELECT id FROM orders WHERE {condition}") == [], condition


def test_a_mask_may_be_null_or_a_number(ask: Ask):
    assert set(ask("SELECT amount, email FROM orders", MASKED)) == {(None, "hidden")}
    assert ask("SELECT count(amount), count(*) FROM orders", MASKED) == [(0, 10)]
    assert ask("SELECT count(*) FROM orders WHERE amount IS NULL AND email = 'hidden'", MASKED) == [(10,)]


def test_a_masked_key_is_no_way_to_a_row(engine: QueryEngine, ask: Ask):
    assert ask("SELECT id FROM orders WHERE id = 9", MASKED) == []
    assert ask("SELECT count(*) FROM orders WHERE id = 1", MASKED) == [(5,)]
    assert ask("SELECT count(*) FROM orders WHERE id IN (7, 9)", MASKED) == [(0,)]
    assert ask("SELECT count(*) FROM orders WHERE id = $1", MASKED, 9) == [(0,)]
    assert ask("SELECT tenant FROM orders WHERE id = $1", MASKED, 9) == []
    assert engine.visible_catalog(MASKED).table("orders").primary_key == ()


def test_a_hidden_key_is_no_key(engine: QueryEngine, ask: Ask):
    assert engine.visible_catalog(KEYLESS).table("orders").primary_key == ()
    fields = engine.visible_catalog(KEYLESS).table("orders").declared_schema
    assert "id" not in fields.names
    assert all(field.metadata is None for field in fields)
    assert len(ask("SELECT tenant FROM orders WHERE tenant = 'a'", KEYLESS)) == 5


def test_key_lookups_apply_the_row_filter(ask: Ask):
    assert ask("SELECT id, amount FROM orders WHERE id = 9") == [(9, 19)]
    assert ask("SELECT id FROM orders WHERE id = 7") == []
    assert ask("SELECT * FROM orders WHERE id = $1", ANALYST, 7) == []
    assert ask("SELECT id FROM orders WHERE id IN (0, 1, 2, 3, 4, 5, 6, 7)") == [(0,), (4,), (5,)]
    assert ask("SELECT id FROM orders WHERE id IN ($1, $2)", ANALYST, 7, 9) == [(9,)]
    assert ask("SELECT id, email, code FROM orders WHERE id = 9") == [(9, "u***", "0")]


def test_a_filter_of_which_storage_says_all(ask: Ask):
    assert ids(ask("SELECT id FROM orders", FILTERED)) == [0, 1, 4, 5, 9]
    assert ask("SELECT id FROM orders WHERE id = 7", FILTERED) == []
    assert ask("SELECT count(*) FROM orders", FILTERED) == [(5,)]
    assert ask("SELECT id FROM orders WHERE id > 3 AND amount < 15", FILTERED) == [(4,)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("row_filter", "expected"),
    [
        ("true", 10),
        ("false", 0),
        ("NULL", 0),
        ("1 = 1", 10),
        ("id = 9", 1),
        ("id = CAST(9 AS BIGINT) AND CAST(9 AS BIGINT) = id", 1),
        ("id IN (0, 7) -- two of them", 2),
        ("id IN (0, 7) AND length(note) > 0", 2),
        ("amount % 2 = 0", 2),
        ("tenant = 'a' OR id = 7", 6),
        ("tenant = 'a' AND true", 5),
        ("tenant = email", 0),
        ("id < margin + 1", 2),
        ("CASE WHEN tenant = 'b' THEN id > 7 ELSE false END", 2),
    ],
)
def test_filters_of_all_kinds(ask: Ask, row_filter: str, expected: int):
    access = create_principal(orders=TableAccess(row_filter=row_filter))
    assert ask("SELECT count(*) FROM orders", access) == [(expected,)]
    assert len(ask("SELECT * FROM orders", access)) == expected
    found = [one for number in range(11) for one in ask(f"SELECT id FROM orders WHERE id = {number}", access)]
    assert len(found) == expected


def test_counts_count_what_is_visible(ask: Ask):
    assert ask("SELECT count(*) FROM orders") == [(4,)]
    assert ask("SELECT count(1) FROM orders WHERE tenant = 'b'") == [(0,)]
    assert ask("SELECT count(*) AS n FROM orders o") == [(4,)]
    assert ask("SELECT count(*) FROM (SELECT * FROM orders)") == [(4,)]
    assert ask("SELECT min(amount), max(amount), sum(id) FROM orders") == [(10, 19, 18)]


def test_masks_see_true_values_and_hidden_columns(ask: Ask):
    access = create_principal(
        orders=TableAccess(
            masks={"amount": "CAST(margin * 10 AS INT)", "email": "CASE WHEN tenant = 'a' THEN email END"},
            hidden_columns=frozenset({"margin"}),
        )
    )
    assert set(ask("SELECT amount FROM orders", access)) == {(5,)}
    assert ask("SELECT count(email), count(*) FROM orders", access) == [(5, 10)]


def test_a_mask_is_cast_to_the_type_of_its_column(engine: QueryEngine):
    access = create_principal(orders=TableAccess(masks={"amount": "id * 2.5", "email": "id"}))
    plan = engine.prepare(
        "SELECT amount, email FROM orders WHERE tenant = 'a' ORDER BY amount", access=access
    )
    assert plan.schema.types == [pa.int32(), pa.string()]
    assert plan.execute().read_all().column("email").to_pylist() == ["0", "1", "4", "5", "9"]


@pytest.mark.parametrize(
    "mask",
    [
        "CASE WHEN tenant = 'a' THEN email END",
        "nullif(email, email)",
        "CASE WHEN id < 0 THEN '' ELSE NULL END",
    ],
)
def test_nothing_is_left_beneath_a_null(engine: QueryEngine, mask: str):
    """Clients receive the buffers of columns, and those may hold more than the values that are shown."""
    access = create_principal(orders=TableAccess(masks={"email": mask, "amount": "nullif(amount, 5)"}))
    for sql in ("SELECT email, amount FROM orders", "SELECT email, amount FROM orders WHERE id IN (7, 8, 0)"):
        for batch in engine.prepare(sql, access=access).execute():
            sent = batch.serialize().to_pybytes()
            assert not re.search(rb"boss[23789]", sent)
            emails, amounts = batch.columns
            assert emails.null_count
            values = np.frombuffer(amounts.buffers()[1], np.int32)[amounts.offset :][: len(amounts)]
            assert 5 not in values


def test_no_buffer_holds_a_hidden_row(root: Path, open_engine: Callable[[Path], QueryEngine]):
    words = pa.array(["seen", "HIDDEN", "seen", "HIDDEN"])
    columns = {
        "id": pa.array(range(4)),
        "text": words,
        "word": words.dictionary_encode(),
        "words": pa.array([[word] for word in words.to_pylist()]),
        "parts": pa.array([{"word": word} for word in words.to_pylist()]),
    }
    lance.write_dataset(pa.table(columns), root / "words.lance")
    engine = open_engine(root)
    for row_filter in ("id % 2 = 0", "id IN (0, 2)", "id = 0", "text = 'seen'", "lower(word) = 'seen'"):
        access = create_principal(words=TableAccess(row_filter=row_filter))
        for sql in ("SELECT * FROM words", "SELECT word, words, parts FROM words WHERE id >= 0 ORDER BY id"):
            for batch in engine.prepare(sql, access=access).execute():
                assert b"seen" in batch.serialize().to_pybytes()
                assert b"HIDDEN" not in batch.serialize().to_pybytes()


def test_two_principals_share_nothing(ask: Ask):
    for _ in range(2):  # the second time with warm caches, and plans that are kept
        assert ask("SELECT count(*) FROM orders", FILTERED) == [(5,)]
        assert ask("SELECT count(*) FROM orders", ANALYST) == [(4,)]
        assert ids(ask("SELECT id FROM orders WHERE id IN (1, 9)", FILTERED)) == [1, 9]
        assert ids(ask("SELECT id FROM orders WHERE id IN (1, 9)", ANALYST)) == [9]


def test_a_join_restricts_each_side_by_its_own_policy(ask: Ask):
    joined = "SELECT o.id, i.sku FROM items i LEFT JOIN orders o ON o.id = i.order_id"
    assert ids(ask(f"SELECT * FROM ({joined}) WHERE id IS NOT NULL")) == VISIBLE
    assert ask("SELECT count(*) FROM items WHERE order_id NOT IN (SELECT id FROM orders)") == [(7,)]
    assert ask("SELECT count(*) FROM orders a, orders b") == [(16,)]


def test_a_view_shows_what_its_reader_may_see(ask: Ask):
    assert ask("SELECT id, email FROM recent ORDER BY id") == [(number, "u***") for number in VISIBLE]


def test_a_row_that_moved_to_a_hidden_region_does_not_come_back(
    root: Path, writers: WriterProcess, open_engine: Callable[[Path], QueryEngine]
):
    """The region follows from the tenant, the tenant from no key: a pruned region supersedes rows."""
    schema = pa.schema([key_field("id", pa.int64()), pa.field("tenant", pa.string())])
    tenants = tuple("abcdefghijkl")  # so many that regions are pruned for lookups, too
    by_tenant = SpecField("f", ("tenant",), "utf8", transform="identity")
    layout = by_spec((by_tenant,), lambda row: (row["tenant"],), widths=(8,))
    base = pa.table({"id": range(4), "tenant": ["a"] * 4}, schema=schema)
    table = LsmTable.create(root, "moving", base, layout, writers)
    for number, tenant in enumerate(tenants):
        table.region_of({"id": 100 + number, "tenant": tenant})
    table.put([{"id": 1, "tenant": "b"}])
    table.close_writers()
    table.put([{"id": 2, "tenant": "c"}])
    ask = asker(open_engine(root))
    only_a = create_principal(moving=TableAccess(row_filter="tenant = 'a'"))
    for access, condition in ((only_a, "true"), (FULL_ACCESS, "tenant = 'a'")):
        assert ids(ask(f"SELECT id FROM moving WHERE {condition}", access)) == [0, 3]
        assert ids(ask(f"SELECT id FROM moving WHERE id IN (1, 2, 3) AND {condition}", access)) == [3]
        for number in (1, 2):
            assert ask(f"SELECT id FROM moving WHERE id = {number} AND {condition}", access) == []
    assert [len(ask("SELECT id FROM moving WHERE id = $1", only_a, number)) for number in range(4)] == [
        1,
        0,
        0,
        1,
    ]


def test_policies_read_json(root: Path, open_engine: Callable[[Path], QueryEngine]):
    documents = ['{"team": "a", "to": {"mail": "x@y"}}', '{"team": "b"}', None]
    lance.write_dataset(pa.table({"id": [1, 2, 3], "doc": documents}), root / "letters.lance")
    access = TableAccess(row_filter="doc ->> 'team' = 'a'", masks={"doc": "json_extract(doc, '$.to.mail')"})
    engine = open_engine(root)
    check_table_access(engine.catalog.table("letters"), access)
    seen = engine.prepare("SELECT id, doc FROM letters", access=create_principal(letters=access)).execute()
    assert seen.read_all().to_pylist() == [{"id": 1, "doc": '"x@y"'}]
    with pytest.raises(InvalidInputError, match=r"to_json: .* not supported in access policies"):
        check_table_access(engine.catalog.table("letters"), TableAccess(masks={"doc": "to_json(id)"}))


def test_masks_of_every_type(root: Path, open_engine: Callable[[Path], QueryEngine]):
    table = typed_rows()
    lance.write_dataset(table, root / "typed.lance")
    engine = open_engine(root)
    schema = engine.prepare("SELECT * FROM typed").schema
    for mask, expected in (("NULL", [None, None]), ("CASE WHEN id = 2 THEN {} END", [None, None])):
        masks = {name: mask.format(name) for name in TYPES}
        plan = engine.prepare("SELECT * FROM typed", access=create_principal(typed=TableAccess(masks=masks)))
        assert plan.schema == schema
        found = plan.execute().read_all()
        assert all(found.column(name).to_pylist() == expected for name in TYPES)
    kept = create_principal(typed=TableAccess(masks={name: f"coalesce({name}, {name})" for name in TYPES}))
    shown = engine.prepare("SELECT * FROM typed", access=kept).execute().read_all()
    assert shown == engine.execute("SELECT * FROM typed").read_all()


def test_a_table_of_which_no_column_is_shown_still_has_rows(ask: Ask, engine: QueryEngine):
    names = engine.visible_catalog(FULL_ACCESS).table("orders").declared_schema.names
    access = create_principal(orders=TableAccess(row_filter="tenant = 'a'", hidden_columns=frozenset(names)))
    assert ask("SELECT count(*) FROM orders", access) == [(5,)]
    assert ask("DESCRIBE orders", access) == []


@pytest.mark.parametrize(
    ("access", "reason"),
    [
        (TableAccess(row_filter="tenant = 'a'", masks={"email": "'x'"}), ""),
        (TableAccess(hidden_columns=frozenset({"phone"})), "the policy hides column 'phone', which does not"),
        (
            TableAccess(masks={"phone": "'x'"}),
            "the policy masks column 'phone', which does not exist; there are:",
        ),
        (TableAccess(row_filter="tenant"), "row filter 'tenant' can't be used: "),
        (
            TableAccess(row_filter="id > now()"),
            "row filter 'id > now()' uses now, but a policy must follow from",
        ),
        (TableAccess(masks={"amount": "email"}), ""),
        (TableAccess(masks={"amount": "'x'"}), "mask \"'x'\" of column 'amount' (int32) can't be used: "),
    ],
)
def test_a_policy_is_checked_for_its_author(engine: QueryEngine, access: TableAccess, reason: str):
    table = engine.catalog.table("orders")
    if not reason:
        check_table_access(table, access)
        return
    with pytest.raises(InvalidInputError, match=re.escape(f"table 'orders': {reason}")):
        check_table_access(table, access)


def test_subqueries_that_are_joined_see_no_other_rows_and_values(ask: Ask):
    """Tables are read by their names in what a statement becomes, so that policies apply below."""
    smaller = "(SELECT count(*) FROM orders AS o WHERE o.id < orders.id)"
    assert sorted(ask(f"SELECT id, {smaller} AS c FROM orders")) == [(0, 0), (4, 1), (5, 2), (9, 3)]
    assert sorted(ask(f"SELECT id, {smaller} AS c FROM recent AS orders")) == [(0, 0), (4, 1), (5, 2), (9, 3)]
    mails = "(SELECT max(o.email) FROM orders AS o WHERE o.id <= orders.id)"
    assert set(ask(f"SELECT {mails} AS m FROM orders")) == {("u***",)}
    first = "LATERAL (SELECT o.id, o.code FROM orders AS o WHERE o.id > orders.id ORDER BY o.id LIMIT 1) AS l"
    assert sorted(ask(f"SELECT orders.id, l.* FROM orders, {first}")) == [
        (0, 4, "0"),
        (4, 5, "0"),
        (5, 9, "0"),
    ]
    with pytest.raises(InvalidInputError, match="note"):
        ask("SELECT id, (SELECT count(*) FROM orders AS o WHERE o.note < orders.email) AS c FROM orders")
