"""Which rows are ranked at all: those that a policy shows and that a statement's conditions admit."""

import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lance_gateway.execnodes import LanceSource, RowMask
from lance_gateway.execnodes.node import ROW_ADDRESS
from lance_gateway.execnodes.search.source import SearchSource
from lance_gateway.memwal.errors import (
    InvalidInputError,
    LanceGatewayError,
    PreconditionError,
    UnavailableError,
)
from lance_gateway.planner.access.rights import TableAccess
from lance_gateway.planner.access.table_policy import plan_policy
from lance_gateway.planner.bridge.row_expressions import match_rows
from lance_gateway.planner.predicates.predicate import decode
from lance_gateway.planner.predicates.row_filter import PredicateFilter
from lance_gateway.planner.search.conditions.row_admission import (
    Admission,
    combine_with_policy,
    list_indexed_columns,
)
from lance_gateway.planner.search.sources.index_coverage import IndexKind
from lance_gateway.planner.search.sources.search_sources import list_sources
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.planner.tables.visibility.visibility import Visibility
from tests.planner.access_lake import ANALYST, VISIBLE, write_lake
from tests.support.lake.tables import LsmTable, key_field, unpartitioned
from tests.support.processes.writer_process import WriterProcess

ALL_ORDERS = [0, 1, 2, 3, 4, 5, 7, 8, 9, 10]
FAILS_FOR_AN_OLD_ROW = "100 / (amount + id - 9) IS NOT NULL"
"""Only the superseded version of row 4 has the amount 5."""
OF_ANALYST = ANALYST.tables["orders"]


@dataclass(frozen=True, slots=True)
class SqlCondition:
    """Condition in SQL that depends only on the row."""

    text: str
    columns: frozenset[str]
    needs_visible_rows: bool = False

    @property
    def identity(self) -> Hashable | None:
        return self.text

    def sql(self, names: Mapping[str, str]) -> str | None:
        return None

    def matches(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        return match_rows(batch, self.text)

    def build_error(self, error: Exception) -> LanceGatewayError:
        return InvalidInputError(f"the condition {self.text} can't be evaluated: {error}")


@dataclass
class Orders:
    """The sources of a search in one table, and admissions to them."""

    catalog: Catalog
    name: str = "orders"

    def __post_init__(self) -> None:
        table = self.catalog.table(self.name)
        regions = table.assignments(table.base(), "strong").region_ids
        snapshot = table.take_snapshot(regions)
        self.schema: pa.Schema = snapshot.base.schema
        masks = None
        if snapshot.base.primary_key:
            masks = Visibility(self.catalog.cache, self.catalog.executor).compute_masks(snapshot)
        self.sources = list_sources(snapshot, masks, frozenset(regions), "id", IndexKind.VECTOR)

    def admission(self, access: TableAccess | None = None, *indexed: str) -> Admission:
        policy = None if access is None else plan_policy(self.schema, access)
        cache, executor = self.catalog.cache, self.catalog.executor
        return Admission(self.name, policy, cache, executor, lambda: None, frozenset(indexed))

    def said(self, expression: pc.Expression) -> PredicateFilter:
        return PredicateFilter(decode(expression, self.schema), expression)


def ids(sources: tuple[SearchSource, ...], column: str = "id") -> list[int]:
    """Of the live rows, each found once."""
    found = []
    for source in sources:
        if isinstance(source.rows, LanceSource):
            dataset: lance.LanceDataset = source.rows.dataset
            rows = dataset.scanner(columns=[column], with_row_address=True).to_table()
        else:
            rows = source.rows.rows.select([column])
            rows = rows.append_column(ROW_ADDRESS, pa.array(range(rows.num_rows), pa.uint64()))
        for batch in rows.combine_chunks().to_batches():
            found += source.live.keep(batch, batch.column(ROW_ADDRESS)).column(column).to_pylist()
    return sorted(found)


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory, shared_writers: WriterProcess) -> Iterator[Catalog]:
    root = tmp_path_factory.mktemp("admitted")
    write_lake(root, shared_writers)
    catalog = Catalog.open(str(root))
    yield catalog
    catalog.close()


@pytest.fixture
def orders(catalog: Catalog) -> Orders:
    return Orders(catalog)


def test_rows_that_a_policy_hides_are_in_no_source(orders: Orders):
    assert ids(orders.sources) == ALL_ORDERS
    assert ids(orders.admission().restrict_to_visible(orders.sources)) == ALL_ORDERS
    assert ids(orders.admission(OF_ANALYST).restrict_to_visible(orders.sources)) == VISIBLE


@pytest.mark.parametrize(
    ("rows", "shown"),
    [
        ("tenant = 'a'", [0, 1, 4, 5, 9]),
        ("tenant = 'a' AND lower(note) = 'ok'", [0, 4, 5, 9]),
        ("id IN (2, 3, 9)", [2, 3, 9]),
        ("amount > 12", [4, 5, 9]),
        ("note LIKE '%x'", [1]),
        ("false", []),
        ("1 = 1", ALL_ORDERS),
        ("tenant IS NULL", []),
    ],
)
def test_a_row_filter_is_exact_in_every_source(orders: Orders, rows: str, shown: list[int]):
    assert ids(orders.admission(TableAccess(row_filter=rows)).restrict_to_visible(orders.sources)) == shown


def test_what_an_index_finds_is_left_to_lance(orders: Orders):
    said = orders.said((pc.field("tenant") == "a") & (pc.field("id") > 3))
    sources, remaining = orders.admission(None, "tenant").restrict_to_conditions(orders.sources, said)
    assert remaining is said
    assert sources == orders.sources
    sources, remaining = orders.admission(None, "amount").restrict_to_conditions(orders.sources, said)
    assert remaining is None
    assert ids(sources) == [4, 5, 9]


def test_indexes_that_find_values_are_known(tmp_path: Path):
    rows = pa.table({"a": [1], "b": ["x"], "c": [1], "d": ["x"]})
    dataset = lance.write_dataset(rows, tmp_path / "t.lance")
    for column, kind in (("a", "BTREE"), ("b", "BITMAP"), ("c", "ZONEMAP"), ("d", "INVERTED")):
        dataset.create_scalar_index(column, kind)
    catalog = Catalog.open(str(tmp_path))
    assert list_indexed_columns(catalog.table("t").base()) == {"a", "b"}
    catalog.close()


@pytest.mark.parametrize(
    ("text", "columns", "shown"),
    [
        ("note LIKE '%x'", {"note"}, [1]),
        ("length(email) < 9 AND tenant = 'a'", {"email", "tenant"}, [0, 4, 5, 9]),
        ("id % 5 = 0", {"id"}, [0, 5, 10]),
        ("1 = 0", set(), []),
        ("1 = 1", set(), ALL_ORDERS),
    ],
)
def test_what_only_datafusion_can_say_narrows_the_sources(
    orders: Orders, text: str, columns: set[str], shown: list[int]
):
    condition = SqlCondition(text, frozenset(columns))
    sources, remaining = orders.admission().restrict_to_conditions(orders.sources, None, [condition])
    assert remaining is None
    assert ids(sources) == shown


def test_what_lance_can_not_say_is_evaluated(orders: Orders):
    said = orders.said(pc.field("margin") == -math.nan)
    low = orders.said(pc.less(pc.add(pc.field("id"), 1), 4))
    for condition, shown in ((said, []), (low, [0, 1, 2])):
        sources, remaining = orders.admission(None, "id", "margin").restrict_to_conditions(
            orders.sources, condition
        )
        assert remaining is None
        assert ids(sources) == shown


def test_conditions_stand_together_with_the_policy(orders: Orders):
    admission = orders.admission(OF_ANALYST, "id")
    condition = SqlCondition("amount % 2 = 0", frozenset({"amount"}))
    said = orders.said(pc.field("id") > 0)
    sources, remaining = admission.restrict_to_conditions(
        admission.restrict_to_visible(orders.sources), said, [condition]
    )
    assert remaining is said
    assert ids(sources) == [0, 4]


@pytest.mark.parametrize("email", ["u***", "b***", "u4@x.org"])
def test_a_condition_on_a_masked_column_sees_masked_values(orders: Orders, email: str):
    admission = orders.admission(OF_ANALYST, "email")
    expected = VISIBLE if email == "u***" else []
    said = orders.said(pc.field("email") == email)
    sources, remaining = admission.restrict_to_conditions(admission.restrict_to_visible(orders.sources), said)
    assert remaining is None
    assert ids(sources) == expected
    condition = SqlCondition(f"concat(email, '') = '{email}'", frozenset({"email"}))
    assert (
        ids(
            admission.restrict_to_conditions(
                admission.restrict_to_visible(orders.sources), None, [condition]
            )[0]
        )
        == expected
    )


def test_a_condition_on_a_hidden_column_is_a_mistake_of_ours(orders: Orders):
    with pytest.raises(AssertionError, match="reads columns that its access policy hides"):
        orders.admission(OF_ANALYST).restrict_to_conditions(
            orders.sources, orders.said(pc.field("margin") > 0)
        )


def test_a_condition_does_not_fail_for_a_superseded_row(orders: Orders):
    condition = SqlCondition(FAILS_FOR_AN_OLD_ROW, frozenset({"id", "amount"}))
    sources, _ = orders.admission().restrict_to_conditions(orders.sources, None, [condition])
    assert ids(sources) == ALL_ORDERS


def test_a_condition_does_not_fail_for_a_hidden_row(orders: Orders):
    condition = SqlCondition("100 / (amount - 5) > 0", frozenset({"amount"}))
    admission = orders.admission(OF_ANALYST)
    sources, _ = admission.restrict_to_conditions(
        admission.restrict_to_visible(orders.sources), None, [condition]
    )
    assert ids(sources) == VISIBLE
    with pytest.raises(
        InvalidInputError, match=r"100 / \(amount - 5\) > 0 can't be evaluated.*[Dd]ivide by zero"
    ):
        orders.admission().restrict_to_conditions(orders.sources, None, [condition])


def test_a_policy_that_fails_for_a_row_closes_the_table(orders: Orders):
    admission = orders.admission(TableAccess(row_filter="CAST(code AS INT) = 7"))
    with pytest.raises(PreconditionError, match="does not fit the table") as raised:
        admission.restrict_to_visible(orders.sources)
    assert "oops" not in str(raised.value)


def test_a_policy_does_not_fail_for_a_superseded_row(orders: Orders):
    assert (
        ids(
            orders.admission(TableAccess(row_filter=FAILS_FOR_AN_OLD_ROW)).restrict_to_visible(orders.sources)
        )
        == ALL_ORDERS
    )


def test_what_was_admitted_is_remembered(catalog: Catalog):
    condition = SqlCondition("id % 3 = 0", frozenset({"id"}))

    def masks() -> list[RowMask]:
        sources, _ = (
            Orders(catalog).admission().restrict_to_conditions(Orders(catalog).sources, None, [condition])
        )
        return [one.live for one in sources]

    assert all(one is other for one, other in zip(masks(), masks(), strict=True))


def test_columns_that_swap_their_names_are_not_confused(tmp_path: Path):
    rows = pa.table({"id": [0, 1], "a": [1, 5], "b": [5, 1]})
    dataset = lance.write_dataset(rows, tmp_path / "swapped.lance")
    catalog = Catalog.open(str(tmp_path))
    condition = SqlCondition("a > 2", frozenset({"a"}))

    def admitted() -> list[int]:
        found = Orders(catalog, "swapped")
        return ids(found.admission().restrict_to_conditions(found.sources, None, [condition])[0])

    assert admitted() == [1]
    for path, name in (("a", "c"), ("b", "a"), ("c", "b")):
        dataset.alter_columns({"path": path, "name": name})
    assert admitted() == [0]
    dataset.delete("id = 0")
    assert admitted() == []
    catalog.close()


def test_columns_that_changed_after_a_flush_are_known_by_id(root: Path, writers: WriterProcess):
    schema = pa.schema([key_field("id", pa.int64()), pa.field("a", pa.int32())])
    rows = pa.table({"id": [0, 1, 2], "a": [10, 11, 12]}, schema=schema)
    table = LsmTable.create(root, "altered", rows, unpartitioned(("id",), 1), writers)
    table.put([{"id": 2, "a": 20}, {"id": 3, "a": 11}])
    table.close_writers()
    dataset = table.dataset()
    dataset.alter_columns({"path": "a", "name": "b"})
    dataset.add_columns(pa.schema([pa.field("a", pa.int32())]))
    catalog = Catalog.open(str(root))
    altered = Orders(catalog, "altered")
    for text, column, shown in (("b % 10 = 1", "b", [1, 3]), ("a IS NULL", "a", [0, 1, 2, 3])):
        condition = SqlCondition(text, frozenset({column}))
        assert ids(altered.admission().restrict_to_conditions(altered.sources, None, [condition])[0]) == shown
    said = altered.said((pc.field("b") == 20) | (pc.field("a") > 0))
    assert ids(altered.admission(None, "b").restrict_to_conditions(altered.sources, said)[0]) == [2]
    visible = altered.admission(TableAccess(row_filter="b = 11 OR a = 20")).restrict_to_visible(
        altered.sources
    )
    assert ids(visible) == [1, 3]
    catalog.close()


def test_a_statement_that_was_stopped_stops_here_too(orders: Orders, catalog: Catalog):
    def stopped() -> None:
        raise UnavailableError("stopped")

    admission = Admission("orders", None, catalog.cache, catalog.executor, stopped)
    with pytest.raises(UnavailableError, match="stopped"):
        admission.restrict_to_conditions(
            orders.sources, None, [SqlCondition("id % 7 = 0", frozenset({"id"}))]
        )


def test_regions_are_excluded_by_what_is_true_of_stored_values(orders: Orders):
    policy = plan_policy(orders.schema, TableAccess("tenant = 'a'", masks={"email": "'?'"}))
    said = orders.said((pc.field("id") == 4) & (pc.field("email") == "?"))
    assert str(combine_with_policy(said, policy)) == "tenant = 'a' AND id = 4"
    assert combine_with_policy(said, None) is said
    assert combine_with_policy(None, plan_policy(orders.schema, TableAccess(masks={"email": "'?'"}))) is None
