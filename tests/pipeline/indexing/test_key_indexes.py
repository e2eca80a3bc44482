"""Indexes of primary keys, which tables get from upkeep unless they say otherwise."""

import json
import threading
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from lance_gateway.gateway.cli import app
from lance_gateway.memwal.creating.key_index import encode_key_index
from lance_gateway.pipeline.indexing import IndexPolicy, IndexReport, maintain, needs
from lance_gateway.pipeline.jobs.lake import Lake, LakeTable
from lance_gateway.pipeline.keeping import Keeper, Policies
from lance_gateway.pipeline.merging import merge
from tests.pipeline.indexed_table import IndexedTable, rows
from tests.planner.search.sources.replayed import Ask
from tests.support.lake.tables import LsmTable, Row, key_field, unpartitioned
from tests.support.processes.writer_process import WriterProcess

LAZY = IndexPolicy(compact=False)


def described(table: LsmTable) -> dict[str, tuple[int, int]]:
    """Name of each index -> rows that it has, and rows that it lacks."""
    dataset = table.dataset()
    names = [index.name for index in dataset.describe_indices() if not index.name.startswith("__")]
    stats = {name: dataset.stats.index_stats(name) for name in names}
    return {name: (one["num_indexed_rows"], one["num_unindexed_rows"]) for name, one in stats.items()}


def finds_by_index(table: LsmTable, condition: str) -> bool:
    """Whether Lance looks a condition up in an index."""
    return "ScalarIndexQuery" in table.dataset().scanner(filter=condition).explain_plan(verbose=True)


Made = Callable[..., tuple[LsmTable, LakeTable]]


@pytest.fixture
def make(root: Path, writers: WriterProcess) -> Made:
    def made(keys: dict[str, pa.DataType], base: list[Row]) -> tuple[LsmTable, LakeTable]:
        fields = [key_field(name, kind, at) for at, (name, kind) in enumerate(keys.items(), start=1)]
        schema = pa.schema([*fields, pa.field("v", pa.string())])
        layout = unpartitioned(tuple(keys), 1)
        table = LsmTable.create(root, "docs", pa.Table.from_pylist(base, schema=schema), layout, writers)
        return table, LakeTable.at(str(table.path))

    return made


@pytest.mark.parametrize("kind", [pa.int64(), pa.string(), pa.binary()], ids=str)
def test_the_index_comes_with_the_first_rows_that_are_merged(make: Made, ask: Ask, kind: pa.DataType):
    one, two = ({"id": pa.scalar(str(at)).cast(kind).as_py(), "v": "new"} for at in (1, 2))
    table, lake = make({"id": kind}, [])
    assert maintain(lake, LAZY).reasons == ()
    table.put([one])
    table.close_writers()
    assert needs(lake, LAZY) == ()
    merge(lake)
    assert needs(lake, LAZY) == ("column 'id' of the primary key has no index",)
    report = maintain(lake, LAZY)
    assert (report.built, report.lagging) == (("id_idx",), ())
    assert described(table) == {"id_idx": (1, 0)}
    table.put([two])
    table.close_writers()
    merge(lake)
    assert described(table) == {"id_idx": (1, 1)}
    assert ask("SELECT v FROM docs ORDER BY id")["v"].to_pylist() == ["new", "new"]
    assert maintain(lake, LAZY).optimised == ("id_idx",)
    assert described(table) == {"id_idx": (2, 0)}
    assert maintain(lake, LAZY).reasons == ()


@pytest.mark.slow
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable row ids"])
def test_lookups_are_right_while_the_index_lags_and_once_it_has_everything(
    root: Path, writers: WriterProcess, ask: Ask, stable: bool
):
    table = IndexedTable(root, writers, indexes=False, key_index=True, stable_row_ids=stable)

    def check() -> None:
        for number in (0, 25, 155, 210, 255, 999):
            expected = [table.rows[number,]["n"]] if (number,) in table.rows else []
            assert ask(f"SELECT n FROM docs WHERE id = {number}")["n"].to_pylist() == expected, number
        wanted = sorted(number for number in (3, 25, 155, 255) if (number,) in table.rows)
        found = ask("SELECT id FROM docs WHERE id IN (3, 25, 155, 255) ORDER BY id")
        assert found["id"].to_pylist() == wanted

    assert maintain(table.lake_table, LAZY).built == ("id_idx",)
    check()
    table.turn(range(150, 260), 1, deleted=range(20, 30))
    assert table.index("id_idx").unindexed_rows == 110
    check()
    table.put(*rows(range(155, 160), 2))
    check()
    assert maintain(table.lake_table, LAZY).optimised == ("id_idx",)
    assert table.index("id_idx").is_current
    check()
    assert finds_by_index(table.table, "id = 255")
    assert table.table.dataset().to_table(columns=["n"], filter="id = 255")["n"].to_pylist() == [
        table.rows[255,]["n"]
    ]


@pytest.mark.slow
def test_a_table_of_many_fragments_is_put_together_first_and_then_indexed(
    root: Path, writers: WriterProcess, ask: Ask
):
    table = IndexedTable(root, writers, key_index=True)
    for turn in range(1, 4):
        table.turn(range(turn * 40, turn * 40 + 60), turn)
    report = maintain(table.lake_table, IndexPolicy(max_spare_fragments=1))
    assert (report.built, report.fragments_added) == (("id_idx",), 1)
    assert table.index("id_idx").is_current
    assert maintain(table.lake_table, IndexPolicy(max_spare_fragments=1)).reasons == ()
    table.check(ask)


COMPOSITE: list[Row] = [{"tenant": f"t{at % 3}", "line": at % 5, "id": at, "v": str(at)} for at in range(60)]
COLUMNS = {"tenant": pa.string(), "line": pa.int32(), "id": pa.int64()}


def test_a_composite_key_is_found_by_its_first_column_and_as_a_whole(make: Made, ask: Ask):
    table, lake = make(COLUMNS, COMPOSITE)
    assert maintain(lake, LAZY).built == ("tenant_idx", "id_idx")
    table.put(
        [
            {"tenant": "t1", "line": 2, "id": 7, "v": "newer"},
            {"tenant": "t1", "line": 0, "id": 7, "v": "other"},
        ]
    )
    whole = "SELECT v FROM docs WHERE tenant = 't1' AND line = {} AND id = 7"
    for _ in range(2):
        assert ask(whole.format(2))["v"].to_pylist() == ["newer"]
        assert ask(whole.format(0))["v"].to_pylist() == ["other"]
        assert ask(whole.format(1))["v"].to_pylist() == []
        assert ask("SELECT v FROM docs WHERE tenant = 't2' AND line = 2 AND id = 17")["v"].to_pylist() == [
            "17"
        ]
        assert ask("SELECT count(*) AS n FROM docs WHERE tenant = 't1'")["n"].to_pylist() == [21]
        table.close_writers()
        merge(lake)
        maintain(lake, LAZY)
    assert described(table) == {"tenant_idx": (61, 0), "id_idx": (61, 0)}
    assert finds_by_index(table, "tenant = 't1'")


@pytest.mark.parametrize("said_by", ["policy", "table"])
def test_a_policy_or_a_table_may_say_that_there_is_none(make: Made, said_by: str):
    table, lake = make({"id": pa.int64()}, [{"id": 1, "v": "base"}])
    if said_by == "table":
        table.dataset().update_config(dict(encode_key_index(())))
    policy = IndexPolicy(compact=False, key_index=said_by == "table")
    assert needs(lake, policy) == ()
    assert maintain(lake, policy).built == ()
    assert described(table) == {}


def test_a_table_may_name_columns(make: Made):
    table, lake = make(COLUMNS, COMPOSITE)
    table.dataset().update_config(dict(encode_key_index(("line",))))
    assert maintain(lake, LAZY).built == ("line_idx",)
    table.dataset().update_config(dict(encode_key_index(None)))
    assert maintain(lake, LAZY).built == ("tenant_idx", "id_idx")


def test_a_table_without_memwal_gets_one_too_and_a_table_without_key_does_not(root: Path):
    schema = pa.schema([key_field("id", pa.int64()), pa.field("v", pa.string())])
    lance.write_dataset(pa.table({"id": [1], "v": ["a"]}, schema=schema), root / "plain.lance")
    lance.write_dataset(pa.table({"id": [1], "v": ["a"]}), root / "keyless.lance")
    assert maintain(Lake.open(str(root)).table("plain"), LAZY).built == ("id_idx",)
    assert maintain(Lake.open(str(root)).table("keyless"), LAZY).reasons == ()


def test_an_index_that_is_there_is_enough_whatever_its_name(make: Made):
    table, lake = make({"id": pa.string()}, [{"id": "a", "v": "base"}])
    table.dataset().create_scalar_index("id", "INVERTED", name="id_idx")
    assert maintain(lake, LAZY).built == ("id_idx_2",)
    table.dataset().drop_index("id_idx_2")
    table.dataset().create_scalar_index("id", "BTREE", name="mine")
    assert maintain(lake, LAZY).reasons == ()


def test_of_several_that_maintain_a_table_one_builds_the_index(make: Made):
    table, lake = make({"id": pa.int64()}, [{"id": at, "v": "base"} for at in range(500)])
    reports: list[IndexReport] = []
    threads = [threading.Thread(target=lambda: reports.append(maintain(lake, LAZY))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(reports) == 3
    assert [one.built for one in reports if one.built] == [("id_idx",)]
    assert described(table) == {"id_idx": (500, 0)}


def test_a_root_that_is_kept_healthy_has_indexes_on_keys(root: Path, make: Made):
    table, _ = make({"id": pa.int64()}, [])
    table.put([{"id": 1, "v": "a"}])
    table.close_writers()
    keeper = Keeper(Lake.open(str(root)), Policies())
    assert not keeper.round().failed
    assert described(table) == {"id_idx": (1, 0)}
    table.put([{"id": 2, "v": "b"}])
    table.close_writers()
    keeper.round()
    assert described(table) == {"id_idx": (2, 0)}


@pytest.mark.slow
def test_the_command_tells_what_it_built(root: Path, make: Made):
    def index(*arguments: str) -> str:
        result = CliRunner().invoke(app, ["pipeline", "index", "--root", str(root), *arguments])
        assert result.exit_code == 0, result.output
        return result.stdout

    make({"id": pa.int64()}, [{"id": 1, "v": "base"}])
    assert index("--no-key-index") == "docs: nothing to do\n"
    lines = index().splitlines()
    assert lines[1:] == [
        "  because column 'id' of the primary key has no index",
        "  built for the primary key: id_idx",
    ]
    assert json.loads(index("--json"))["built"] == []
    assert index() == "docs: nothing to do\n"
