"""Regions that an earlier MemWAL of a table left behind don't get into a later one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import AlreadyExistsError, InvalidInputError, PreconditionError
from lance_gateway.memwal.regions.generation_numbers import EVERYTHING
from lance_gateway.memwal.regions.manifest import list_regions, read_latest_manifest
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.pipeline.cleaning import CleanPolicy, clean
from lance_gateway.pipeline.jobs.lake import LakeTable, NoMemWalError
from lance_gateway.pipeline.merging import merge
from tests.planner.writes.ddl.conftest import Gateway
from tests.support.lake.cleaning import create_late_clock

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"}),
        pa.field("n", pa.int64()),
    ]
)
ENABLE = "ALTER TABLE t SET (memwal = true, region_by = 'bucket(id, 2)')"
DISCARD = "ALTER TABLE t SET (memwal = true, region_by = 'bucket(id, 2)', discard_regions = true)"
Rows = dict[int, int]
Lose = Callable[[str], Rows]


def base(rows: Rows) -> pa.Table:
    return pa.table([list(rows), list(rows.values())], schema=SCHEMA)


def overwrite(uri: str) -> Rows:
    lance.write_dataset(base({1: 1000, 2: 1000}), uri, mode="overwrite")
    return {1: 1000, 2: 1000}


def drop_index(uri: str) -> Rows:
    lance.dataset(uri).drop_index("__lance_mem_wal")
    return dict.fromkeys(range(6), 1)


def restore(uri: str) -> Rows:
    lance.dataset(uri, version=1).restore()
    return dict.fromkeys(range(6), 0)


LOSSES: list[Lose] = [overwrite, drop_index, restore]


@pytest.fixture
def uri(sql: Gateway, root: Path) -> str:
    """Rows 0 to 5: value 1 is merged, 2 is flushed for rows 0 to 3, and 3 in the log for rows 0 and 1."""
    place = str(root / "t.lance")
    lance.write_dataset(base(dict.fromkeys(range(6), 0)), place)
    sql(ENABLE)
    for value, count in ((1, 6), (2, 4), (3, 2)):
        put(sql, dict.fromkeys(range(count), value))
        if value < 3:
            sql.engine.catalog.table("t").writer().flush()
        if value < 2:
            merge(LakeTable.at(place))
    return place


def put(sql: Gateway, rows: Rows) -> None:
    sql("INSERT INTO t VALUES " + ", ".join(f"({key}, {n})" for key, n in rows.items()))


def read(sql: Gateway, as_of: str = "", **settings: Any) -> Rows:
    return dict(sql(f"SELECT id, n FROM t {as_of}", **settings))


@pytest.mark.parametrize("lose", LOSSES)
class TestATableThatLostItsMemWal:
    def test_it_gets_no_other_while_regions_are_left(self, sql: Gateway, uri: str, lose: Lose) -> None:
        rows = lose(uri)
        region = list_regions(Storage.open(uri))[0]
        with pytest.raises(PreconditionError, match=f"2 regions of an earlier one, such as {region}"):
            sql(ENABLE)
        assert sql.dataset("t").mem_wal_index_details() is None
        assert read(sql) == rows
        manifest = read_latest_manifest(Storage.open(uri), region)
        assert manifest is not None
        assert not manifest.sealed

    @pytest.mark.slow
    def test_it_may_give_them_up(
        self, sql: Gateway, uri: str, root: Path, lose: Lose, open_gateway: Callable[[Path], Gateway]
    ) -> None:
        before = lance.dataset(uri).version
        was = read(sql, f"FOR VERSION AS OF {before}")
        rows = lose(uri)
        sql(DISCARD)
        assert read(sql) == rows

        def check() -> None:
            for one in (sql, open_gateway(root)):
                assert read(one) == rows
                assert [one(f"SELECT n FROM t WHERE id = {key}") for key in rows] == [
                    [(n,)] for n in rows.values()
                ]

        check()
        assert read(sql, f"FOR VERSION AS OF {before}") == was
        for n in (7, 8):
            put(sql, {0: n, 1: n, 20 + n: n})
            rows |= {0: n, 1: n, 20 + n: n}
            sql("DELETE FROM t WHERE id = 2")
            rows.pop(2, None)
            check()
            sql.engine.catalog.table("t").writer().flush()
            assert read(sql, consistency="flushed") == rows
            merge(LakeTable.at(uri))
            check()
        assert sorted(sql.details("t").merged_generations.values())[2:] == [EVERYTHING, EVERYTHING]
        for hours in (1, 3):  # Directories go after they were taken out of manifests.
            clean(
                LakeTable.at(uri), CleanPolicy(retain_versions=1), delete=True, clock=create_late_clock(hours)
            )
            check()
        assert not list(Path(uri, "_mem_wal").glob("*/*_gen_*"))

    @pytest.mark.slow
    def test_a_gateway_that_held_them_goes_on_with_the_new_ones(
        self, sql: Gateway, uri: str, root: Path, lose: Lose, open_gateway: Callable[[Path], Gateway]
    ) -> None:
        rows = lose(uri)
        open_gateway(root)(DISCARD)
        put(sql, {3: 33})
        assert read(sql) == rows | {3: 33}
        assert read(open_gateway(root)) == rows | {3: 33}

    @pytest.mark.slow
    def test_cleaning_says_what_to_do(self, uri: str, lose: Lose) -> None:
        lose(uri)
        with pytest.raises(NoMemWalError, match="discard_regions = true"):
            clean(LakeTable.at(uri))


@pytest.mark.slow
def test_the_version_before_brings_them_back(sql: Gateway, uri: str) -> None:
    rows, version = read(sql), lance.dataset(uri).version
    overwrite(uri)
    lance.dataset(uri, version=version).restore()
    assert read(sql) == rows
    put(sql, {9: 9})
    assert read(sql) == rows | {9: 9}


@pytest.mark.slow
def test_a_writer_that_holds_one_can_t_bring_it_back(sql: Gateway, uri: str) -> None:
    region = list_regions(Storage.open(uri))[0]
    sql.engine.catalog.table("t").writer().flush()
    writer = lance.dataset(uri).mem_wal_writer(region, durable_write=True)
    writer.put(base({50: 50}))
    rows = overwrite(uri)
    sql(DISCARD)
    writer.put(base({51: 51}))
    with pytest.raises((OSError, RuntimeError)):
        writer.close()
    assert read(sql) == rows
    assert read(sql, consistency="flushed") == rows
    with pytest.raises((OSError, RuntimeError), match="sealed"):
        lance.dataset(uri).mem_wal_writer(region)


@pytest.mark.slow
def test_of_two_gateways_one_gives_them_up(
    sql: Gateway, uri: str, root: Path, open_gateway: Callable[[Path], Gateway]
) -> None:
    rows = overwrite(uri)
    gateways = [sql, open_gateway(root)]
    prepared = [one.engine.prepare_statement(DISCARD) for one in gateways]
    prepared[0].execute()
    put(sql, {5: 5})
    with (
        pytest.raises(PreconditionError)
        if False
        else pytest.raises(AlreadyExistsError, match="has a MemWAL already")
    ):
        prepared[1].execute()
    assert [read(one) for one in gateways] == [rows | {5: 5}] * 2


def test_a_directory_without_a_manifest_is_left_too(sql: Gateway, uri: str) -> None:
    overwrite(uri)
    stray = "00000000-0000-4000-8000-000000000000"
    Path(uri, "_mem_wal", stray, "wal").mkdir(parents=True)
    sql(DISCARD)
    assert sql.details("t").merged_generations[stray] == EVERYTHING


def test_there_may_be_none_to_discard(sql: Gateway, root: Path) -> None:
    lance.write_dataset(base({1: 1}), root / "t.lance")
    sql(DISCARD)
    put(sql, {1: 2})
    assert read(sql) == {1: 2}
    with pytest.raises(InvalidInputError, match="discard_regions"):
        sql("CREATE TABLE u (id BIGINT PRIMARY KEY) WITH (discard_regions = true)")


@pytest.mark.slow
@pytest.mark.usefixtures("uri")
def test_a_table_replaced_by_the_gateway_has_nothing_of_the_old(sql: Gateway) -> None:
    sql("CREATE OR REPLACE TABLE t (id BIGINT PRIMARY KEY, n BIGINT)")
    assert read(sql) == {}
    put(sql, {1: 1})
    assert read(sql) == {1: 1}
    sql("DROP TABLE t")
    sql("CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT)")
    assert read(sql) == {}
