"""What storage is told of a row filter, what is evaluated above it, and which columns masks read."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lance_gateway.execnodes import SecurityBarrierExec
from lance_gateway.memwal.errors import InvalidInputError, PreconditionError
from lance_gateway.planner.access.rights import TableAccess
from lance_gateway.planner.access.table_policy import PolicedRows, plan_policy
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.predicates.predicate import describe
from lance_gateway.planner.predicates.row_filter import PredicateFilter
from lance_gateway.planner.scans.scan_plan import divide_conditions
from tests.planner.recording import pushed
from tests.support.judging.principals import create_principal
from tests.support.lake.tables import LsmTable, by_identity, key_field
from tests.support.processes.writer_process import WriterProcess

SCHEMA = pa.schema([("id", pa.int64()), ("tenant", pa.string()), ("Name", pa.string()), ("n", pa.int32())])


@pytest.mark.parametrize(
    ("row_filter", "storage", "above"),
    [
        ("tenant = 'a'", "tenant = 'a'", False),
        ("tenant = 'a' AND n > 3", "tenant = 'a' AND n > 3", False),
        ("tenant IN ('a', 'b') OR n IS NULL", "tenant = 'a' OR tenant = 'b' OR n IS NULL", False),
        ("n BETWEEN 2 AND 4", "n >= 2 AND n <= 4", False),
        ("\"Name\" = 'x'", "Name = 'x'", False),
        ("n + 1 > 3", "TRUE", True),
        ("tenant = 'a' AND length(\"Name\") = 1", "tenant = 'a'", True),
        ("lower(tenant) = 'a'", "TRUE", True),
        ("tenant = 'a' OR lower(tenant) = 'b'", "TRUE", True),
        ("true", "TRUE", False),
        ("tenant = 'a' AND false", "FALSE", False),
        ('tenant = "Name"', "(not understood)", False),
    ],
)
def test_what_storage_is_told_of_a_filter(row_filter: str, storage: str, above: bool):
    policy = plan_policy(SCHEMA, TableAccess(row_filter=row_filter))
    assert describe(policy.predicate) == storage
    assert (policy.condition == row_filter) is above
    assert bool(policy.condition_columns) is above


def test_filters_of_uuids_are_in_small_letters():
    text = "12345678-9ABC-4DEF-8123-456789ABCDEF"
    policy = plan_policy(SCHEMA, TableAccess(row_filter=f"tenant = '{text}'"), frozenset({"tenant"}))
    assert describe(policy.predicate) == f"tenant = '{text.lower()}'"


PRINTED = [
    "EmptyRelation",
    "Aggregate:",
    "WindowAggr:",
    "Subquery:",
    "Unnest:",
    "BooleanScalar",
    "TableScan: rows",
    "unsupported_filters=[n]",
    "partial_filters=[n]",
    "now()",
    "SELECT rand() OVER (",
]
"""Texts that stand in printed plans, in errors, or in expressions that do not follow from their row."""


@pytest.mark.parametrize("text", PRINTED)
def test_the_words_of_plans_are_values_like_others(text: str):
    policy = plan_policy(SCHEMA, TableAccess(row_filter=f"tenant = '{text}'"))
    assert describe(policy.predicate) == f"tenant = '{text}'"
    assert policy.condition is None
    computed = f"lower(tenant) = '{text.lower()}'"
    policy = plan_policy(
        SCHEMA, TableAccess(row_filter=computed, masks={"Name": f"concat('{text}', tenant)"})
    )
    assert (policy.pushed, policy.condition, policy.condition_columns) == (None, computed, {"tenant"})
    assert policy.masks["Name"].columns == {"tenant"}


@pytest.mark.parametrize("name", [*PRINTED, 'quo"ted', "tenant) OR (true", "İ", "a.b"])
def test_columns_may_have_any_name(name: str):
    schema = pa.schema([("id", pa.int64()), (name, pa.string())])
    column = '"' + name.replace('"', '""') + '"'
    policy = plan_policy(schema, TableAccess(row_filter=f"{column} = 'a'"))
    assert str(policy.pushed) == str(pc.field(name) == "a")
    assert policy.condition is None
    masks = {name: f"upper({column})"}
    policy = plan_policy(schema, TableAccess(row_filter=f"lower({column}) = 'a'", masks=masks))
    assert policy.condition_columns == {name}
    assert policy.masks[name].columns == {name}


@pytest.mark.slow
def test_rows_with_the_words_of_plans_are_shown(tmp_path: Path, open_engine: Callable[[Path], QueryEngine]):
    rows = pa.table({"tenant": PRINTED, "n": range(len(PRINTED))})
    lance.write_dataset(rows, tmp_path / "t.lance")
    engine = open_engine(tmp_path)
    for number, text in enumerate(PRINTED):
        for row_filter in (f"tenant = '{text}'", f"concat(tenant, '') = '{text}'"):
            access = create_principal(t=TableAccess(row_filter=row_filter))
            found = engine.prepare("SELECT n FROM t", access=access).execute().read_all()
            assert found.column("n").to_pylist() == [number], row_filter


@pytest.mark.parametrize(
    ("expression", "used"),
    [
        ("n > rand()", "random"),
        ("n > CAST(random() * 8 AS INT)", "random"),
        ("tenant = uuid()", "uuid"),
        ("CASE WHEN n > 1 THEN true ELSE rand() > 0.5 END", "random"),
        ("now() > TIMESTAMP '2024-01-01'", "now"),
        ("current_timestamp() > TIMESTAMP '2024-01-01'", "now"),
        ("CURRENT_DATE > DATE '2024-01-01'", "current_date"),
        ("today() > DATE '2024-01-01'", "current_date"),
        ("max(n) > 1", "an aggregate"),
        ("row_number() OVER () > 1", "a window function"),
        ("n = (SELECT 1)", "a subquery"),
        ("n IN (SELECT 1)", "a subquery"),
        ("EXISTS (SELECT 1)", "a subquery"),
        ("n = $1", "a parameter"),
    ],
)
def test_what_does_not_follow_from_the_row_is_refused(expression: str, used: str):
    why = f"uses {used}, but a policy must follow from the row alone"
    with pytest.raises(InvalidInputError, match=why):
        plan_policy(SCHEMA, TableAccess(row_filter=expression))
    with pytest.raises(InvalidInputError, match=why):
        plan_policy(SCHEMA, TableAccess(masks={"tenant": f"CASE WHEN {expression} THEN 'a' END"}))


def test_what_arrow_can_not_compare_is_evaluated_above():
    schema = pa.schema([("id", pa.int64()), ("numbers", pa.list_(pa.int64()))])
    policy = plan_policy(schema, TableAccess(row_filter="numbers = make_array(1, 2) AND id > 1"))
    assert policy.pushed is None
    assert policy.condition_columns == {"id", "numbers"}


@pytest.mark.parametrize(
    "row_filter",
    [
        "lower(tenant) = 'x' OR (n IN (1) AND n NOT IN (1))",
        'NOT (n IN (1) AND n NOT IN (1)) AND tenant <> "Name"',
    ],
)
def test_columns_that_the_plan_has_no_use_for_are_still_read(row_filter: str):
    """The filter is evaluated as it is written: every column that it names must be there."""
    policy = plan_policy(SCHEMA, TableAccess(row_filter=row_filter))
    assert policy.condition is None or "n" in policy.condition_columns


def test_which_columns_masks_read():
    masks = {"Name": 'concat(tenant, "Name")', "n": "7", "tenant": "NULL"}
    policy = plan_policy(SCHEMA, TableAccess(masks=masks, hidden_columns=frozenset({"id"})))
    assert policy.schema.names == ["tenant", "Name", "n"]
    assert policy.masks["Name"].columns == {"tenant", "Name"}
    assert policy.masks["Name"].constant is None
    assert policy.masks["n"].constant == pa.array([7], pa.int32())
    assert policy.masks["tenant"].constant == pa.array([None], pa.string())
    assert policy.columns_for(frozenset({"n"})) == frozenset()
    assert policy.columns_for(frozenset({"Name"})) == {"tenant", "Name"}


def test_equal_restrictions_are_planned_once():
    one, other = (TableAccess(row_filter="n > 1", masks={"tenant": "'x'"}) for _ in range(2))
    assert plan_policy(SCHEMA, one) is plan_policy(pa.schema(list(SCHEMA)), other)
    assert plan_policy(SCHEMA, one) is not plan_policy(SCHEMA, TableAccess(row_filter="n > 1"))


@pytest.mark.parametrize(
    ("condition", "below", "above"),
    [
        ("id = 7", "n > 1 AND id = 7", None),
        ("id = 7 AND tenant = 'a'", "n > 1 AND id = 7", "id = 7 AND tenant = 'a'"),
        ("id = 7 OR tenant = 'a'", "n > 1", "id = 7 OR tenant = 'a'"),
        ("tenant = 'a'", "n > 1", "tenant = 'a'"),
        ('tenant = "Name" AND n < 5', "n > 1 AND n < 5", "(not understood) AND n < 5"),
        ("n < 5 AND id IS NULL", "n > 1 AND n < 5 AND id IS NULL", None),
    ],
)
def test_conditions_on_masked_columns_stay_above(condition: str, below: str, above: str | None):
    policy = plan_policy(SCHEMA, TableAccess(row_filter="n > 1", masks={"tenant": "'x'"}))
    (expression,) = pushed(SCHEMA, condition)
    conditions = divide_conditions(expression, policy, SCHEMA)
    assert str(conditions.below) == below
    assert (None if conditions.above is None else str(conditions.above)) == above


def test_a_filter_prunes_regions_and_finds_keys(
    root: Path, writers: WriterProcess, open_engine: Callable[[Path], QueryEngine]
):
    schema = pa.schema([key_field("tenant", pa.string(), 1), key_field("id", pa.int64(), 2)])
    base = pa.Table.from_pylist([{"tenant": name, "id": 1} for name in "abc"], schema=schema)
    table = LsmTable.create(root, "t", base, by_identity("tenant", recorded=True), writers)
    table.put([{"tenant": name, "id": 2} for name in "abc"])
    engine = open_engine(root)
    access = create_principal(t=TableAccess(row_filter="tenant = 'b'"))
    control = RunControl()
    found = engine.prepare("SELECT id FROM t", access=access).execute(control=control).read_all()
    assert sorted(found.column("id").to_pylist()) == [1, 2]
    (read,) = control.reads
    assert (read.regions_kept, read.regions, read.is_restricted) == (1, 3, True)
    control = RunControl()
    found = engine.prepare("SELECT id FROM t WHERE id = 2", access=access).execute(control=control).read_all()
    assert found.column("id").to_pylist() == [2]
    (scan,) = control.scans
    assert scan.is_lookup
    assert not isinstance(scan.tree, SecurityBarrierExec)


BATCH = pa.record_batch(
    [[1, 2, 3, 4], ["a", "b", "a", None], ["x", "y", "z", "w"], [1, 2, 3, None]], schema=SCHEMA
)


def kept(conditions: PredicateFilter | None, batch: pa.RecordBatch = BATCH) -> list[int]:
    """Ids of the rows that pass."""
    passing = batch if conditions is None else batch.filter(conditions.matches(batch))
    return [int(one) for one in passing.column("id").to_pylist()]


@pytest.mark.parametrize(
    ("access", "condition", "below", "above"),
    [
        (None, None, [1, 2, 3, 4], None),
        (None, "n >= 2", [2, 3], None),
        (TableAccess(), None, [1, 2, 3, 4], None),
        (TableAccess(), "n >= 2", [2, 3], None),
        (TableAccess(row_filter="n <= 2"), None, [1, 2], None),
        (TableAccess(row_filter="n <= 2"), "n >= 2", [2], None),
        (TableAccess(row_filter="n <= 2"), 'tenant <> "Name"', [1, 2], None),
        (TableAccess(row_filter="n + 1 <= 3"), "n >= 2", [2, 3], None),
        (TableAccess(row_filter='tenant <> "Name"'), None, [1, 2, 3], None),
        (TableAccess(row_filter='tenant = "Name"'), None, [], None),
        (TableAccess(row_filter='tenant = "Name"', masks={"n": "1"}), None, [], None),
        (TableAccess(row_filter='tenant = "Name"', masks={"n": "1"}), "n = 1", [], [1]),
        (TableAccess(row_filter='tenant <> "Name"', masks={"n": "1"}), "n = 1 AND id > 1", [1, 2, 3], []),
        (TableAccess(masks={"tenant": "'a'"}), "n >= 2", [2, 3], None),
        (TableAccess(masks={"tenant": "'a'"}), "tenant = 'b'", [1, 2, 3, 4], [2]),
        (TableAccess(masks={"tenant": "'a'"}), "tenant = 'b' AND n >= 2", [2, 3], [2]),
        (TableAccess(row_filter="n <= 2", masks={"tenant": "'a'"}), "tenant = 'a'", [1, 2], [1, 3]),
        (TableAccess(row_filter="n <= 2", masks={"tenant": "'a'"}), "tenant = 'b' AND id > 1", [2], [2]),
        (TableAccess(row_filter="n <= 2", masks={"tenant": "'a'"}), None, [1, 2], None),
    ],
)
def test_which_rows_pass_below_and_above_a_policy(
    access: TableAccess | None, condition: str | None, below: list[int], above: list[int] | None
):
    """What is asked of a masked column must not choose among the rows that it hides."""
    policy = None if access is None else plan_policy(SCHEMA, access)
    expression = None if condition is None else pushed(SCHEMA, condition)[0]
    conditions = divide_conditions(expression, policy, SCHEMA)
    assert kept(conditions.below) == below
    if expression is None and (policy is None or policy.pushed is None):
        assert conditions.below is None  # there is nothing to evaluate
    assert (None if conditions.above is None else kept(conditions.above)) == above


def test_a_condition_whose_columns_can_not_be_told_stays_above_masks():
    masked, plain = (plan_policy(SCHEMA, TableAccess(masks=masks)) for masks in ({"tenant": "'a'"}, {}))
    by_position = pc.field(0) == 1
    for expression in (by_position, ~by_position, by_position & (pc.field("n") > 1)):
        conditions = divide_conditions(expression, masked, SCHEMA)
        assert conditions.above is not None
        assert str(conditions.above.expression) == str(expression)
        assert divide_conditions(expression, plain, SCHEMA).above is None


def test_a_part_of_a_masked_column_stays_above_its_mask():
    schema = pa.schema([*SCHEMA, pa.field("place", pa.struct([("x", pa.int64())]))])
    masked = plan_policy(schema, TableAccess(masks={"place": "NULL"}))
    part, plain = pc.field("place", "x") == 1, pc.field("n") > 1
    for expression in (part, ~part, part & plain):
        conditions = divide_conditions(expression, masked, schema)
        assert conditions.above is not None
        assert str(conditions.above.expression) == str(expression)
        assert conditions.below is None or conditions.below.columns == {"n"}


def test_a_function_of_columns_that_are_not_masked_stays_below():
    masked = plan_policy(SCHEMA, TableAccess(masks={"tenant": "'a'"}))
    on_name, on_tenant = (pc.match_like(pc.field(name), "x%") for name in ("Name", "tenant"))
    assert divide_conditions(on_name, masked, SCHEMA).above is None
    conditions = divide_conditions(on_tenant & (pc.field("n") > 1), masked, SCHEMA)
    assert (str(conditions.below), str(conditions.above)) == ("n > 1", "(not understood) AND n > 1")


def policed(access: TableAccess, *columns: str) -> dict[str, list[object]]:
    rows = PolicedRows("t", plan_policy(SCHEMA, access), frozenset(columns)).apply(BATCH)
    return {name: rows.column(name).to_pylist() for name in rows.schema.names}


def test_rows_are_shown_as_a_policy_leaves_them():
    everything = {name: BATCH.column(name).to_pylist() for name in SCHEMA.names}
    assert policed(TableAccess(), *SCHEMA.names) == everything
    assert policed(TableAccess(), "n", "id") == {"id": [1, 2, 3, 4], "n": [1, 2, 3, None]}
    computed = TableAccess(row_filter="n + 1 <= 3", masks={"Name": 'upper("Name")', "tenant": "'?'"})
    assert policed(computed, "id", "Name", "tenant") == {
        "id": [1, 2],
        "Name": ["X", "Y"],
        "tenant": ["?"] * 2,
    }
    assert policed(computed, "tenant") == {"tenant": ["?", "?"]}
    assert policed(computed, "id") == {"id": [1, 2]}
    constant = TableAccess(masks={"tenant": "NULL", "n": "7"})
    assert policed(constant, "id", "n", "tenant") == {
        "id": [1, 2, 3, 4],
        "n": [7] * 4,
        "tenant": [None] * 4,
    }


def test_a_policy_means_what_it_means_in_a_query():
    late = dt.datetime(9999, 12, 31)
    batch = pa.record_batch({"s": ["a_", "ab", "a_"], "at": [late, late, None]})
    access = TableAccess(
        row_filter="at < '9999-12-31 01:00:00' AND s LIKE 'a!_' ESCAPE '!'",
        masks={"at": "date_trunc('year', at)"},
    )
    rows = PolicedRows("t", plan_policy(batch.schema, access), frozenset({"s", "at"})).apply(batch)
    assert rows.to_pylist() == [{"s": "a_", "at": dt.datetime(9999, 1, 1)}]


@pytest.mark.parametrize(
    "access",
    [TableAccess(row_filter="10 / (n - 2) > 1"), TableAccess(masks={"n": "10 / (n - 2)"})],
    ids=["row filter", "mask"],
)
def test_a_policy_that_fails_for_a_row_shows_none(access: TableAccess, caplog: pytest.LogCaptureFixture):
    with pytest.raises(PreconditionError, match="'t'") as caught:
        policed(access, "id", "n")
    # The cause may quote values.
    assert caught.value.__cause__ is None
    assert "access policy of table 't'" in caplog.text
