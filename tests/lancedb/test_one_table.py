"""LanceDB and the gateway write one table: every key has one region, and no acknowledged write is lost."""

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lance
import lancedb
import pyarrow as pa
import pytest
from lancedb import LsmWriteSpec

from lance_gateway.memwal.regions.manifest import list_regions, read_latest_manifest
from lance_gateway.memwal.regions.region_ids import find_region_values
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.memwal.transforms.transforms import decode_region_value
from lance_gateway.memwal.writing import OpenTable
from lance_gateway.memwal.writing.region import lance_writers, ownership
from lance_gateway.memwal.writing.region.claim import Claim
from lance_gateway.pipeline.cleaning import CleanPolicy, clean
from lance_gateway.pipeline.indexing import maintain
from lance_gateway.pipeline.merging import merge
from tests.lancedb.both import KEY, KINDS, SCHEMA, TENANTS, Both, Kind
from tests.support.lake.ingesting import Batch, build_table
from tests.support.lake.tables import key_field
from tests.support.sampling import sample

Making = Callable[..., Both]


@pytest.mark.slow
@pytest.mark.parametrize("kind", sample(KINDS, 1))
@pytest.mark.parametrize("first", ["lancedb", "gateway"])
def test_whoever_writes_first_both_write_the_same_regions(both: Making, kind: Kind, first: str):
    table = both(kind, rows={("ann", 0): 0, ("bob", 0): 0})
    for turn in range(1, 3):
        for tenant in TENANTS:
            steps = [
                lambda one=tenant, v=turn: table.by_lancedb(one, (1, v), (2, v), flush=v == 1),
                lambda one=tenant, v=turn: table.insert(one, (2, 10 * v), (3, 10 * v)),
            ]
            for step in steps if first == "lancedb" else steps[::-1]:
                step()
                table.check()
    assert len(table.regions()) == {"bucket": 2, "identity": 3, "unsharded": 1}[kind]


@pytest.mark.slow
@pytest.mark.parametrize("kind", sample(KINDS, 1))
def test_the_gateway_updates_deletes_and_merges_what_lancedb_wrote(both: Making, kind: Kind):
    table = both(kind)
    for tenant in TENANTS:
        table.by_lancedb(tenant, *((key, key) for key in range(6)))
    table.sql("UPDATE t SET v = v + 100 WHERE tenant = 'ann' AND id = 1")
    table.sql("DELETE FROM t WHERE tenant = 'bob' AND id IN (2, 3)")
    table.sql("DELETE FROM t WHERE id = 5")
    table.sql(
        "MERGE INTO t USING (VALUES ('eve', 0, 7), ('eve', 9, 7)) AS s(tenant, id, v) "
        "ON t.tenant = s.tenant AND t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v "
        "WHEN NOT MATCHED THEN INSERT VALUES (s.tenant, s.id, s.v)"
    )
    table.acknowledged[("ann", 1)] = 101
    for gone in (("bob", 2), ("bob", 3), *((tenant, 5) for tenant in TENANTS)):
        del table.acknowledged[gone]
    table.acknowledged |= {("eve", 0): 7, ("eve", 9): 7}
    table.check()
    table.by_lancedb("bob", (2, 22))
    table.check()


@pytest.mark.slow
@pytest.mark.parametrize("kind", sample(KINDS, 1))
def test_merging_and_cleaning_change_nothing(both: Making, kind: Kind):
    table = both(kind)
    for turn in range(3):
        for tenant in TENANTS[: turn + 1]:
            table.by_lancedb(tenant, (1, turn), (turn + 2, turn), flush=True)
            table.insert(tenant, (2, 10 + turn), (turn + 5, turn))
        table.check()
        merge(table.lake_table)
        table.check()
        clean(table.lake_table, CleanPolicy(grace_seconds=0), delete=True)
        table.check()
    table.sql("DELETE FROM t WHERE tenant = 'ann' AND id = 1")
    del table.acknowledged[("ann", 1)]
    merge(table.lake_table)
    table.check()
    table.by_lancedb("eve", (1, 99))
    table.insert("ann", (1, 98))
    table.check()


@pytest.mark.slow
@pytest.mark.parametrize("kind", sample(KINDS, 1))
def test_lancedb_reads_and_writes_a_table_whose_key_upkeep_has_indexed(both: Making, kind: Kind, root: Path):
    table = both(kind)
    built: list[tuple[str, ...]] = []
    for turn in range(3):
        for tenant in TENANTS:
            table.by_lancedb(tenant, (1, turn), (turn + 2, turn), flush=True)
        table.insert("bob", (2, 10 + turn), (turn + 5, turn))
        merge(table.lake_table)
        built.append(maintain(table.lake_table).built)
        table.check()
        theirs = lancedb.connect(root).open_table("t")
        assert {one.name for one in theirs.list_indices()} >= {"tenant_idx", "id_idx"}
        assert theirs.count_rows() == len(table.acknowledged)
        for (tenant, key), value in table.acknowledged.items():
            found = theirs.search().where(f"tenant = '{tenant}' AND id = {key}").to_list()
            assert [one["v"] for one in found] == [value]
    assert built == [("tenant_idx", "id_idx"), (), ()]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_region_of_lancedb_is_pruned_by_its_id(both: Making, kind: Kind):
    table = both(kind)
    for tenant in TENANTS:
        table.by_lancedb(tenant, (1, 1))
    plan = table.engine.execute("EXPLAIN SELECT * FROM t WHERE tenant = 'ann'").read_all().to_pylist()
    text = "\n".join(str(value) for row in plan for value in row.values())
    expected = {"bucket": len(table.regions()) - 1, "identity": 2, "unsharded": 0}[kind]
    assert text.count("excludes") == expected, text


@pytest.mark.slow
def test_a_region_that_anybody_named_is_not_pruned(both: Making):
    table = both("identity")
    table.by_lancedb("ann", (1, 1))
    dataset = lance.dataset(table.storage.uri)
    with dataset.mem_wal_writer("01234567-89ab-5def-8123-456789abcdef") as rival:
        rival.put(pa.table({"tenant": ["bob"], "id": [1], "v": [5]}, schema=dataset.schema))
    table.acknowledged[("bob", 1)] = 5
    table.check()


@pytest.mark.slow
@pytest.mark.parametrize("kind", sample(KINDS, 1))
@pytest.mark.soak
def test_any_order_of_writes_and_jobs(both: Making, kind: Kind):
    draw = random.Random(kind)
    table = both(kind, rows={("ann", 0): 0, ("bob", 1): 0})
    for number in range(40):
        tenant, key = draw.choice(TENANTS), draw.randrange(6)
        step = draw.choice(
            ["lancedb"] * 4 + ["insert"] * 3 + ["update", "delete", "merge", "clean", "reopen"]
        )
        match step:
            case "lancedb":
                rows = {draw.randrange(6): number for _ in range(draw.randrange(1, 4))}
                table.by_lancedb(tenant, *rows.items(), flush=draw.random() < 0.5)
            case "insert":
                table.insert(tenant, (key, number))
            case "update":
                table.sql(f"UPDATE t SET v = v + 100 WHERE tenant = '{tenant}' AND id >= {key}")
                for one in [one for one in table.acknowledged if one[0] == tenant and one[1] >= key]:
                    table.acknowledged[one] += 100
            case "delete":
                table.sql(f"DELETE FROM t WHERE tenant = '{tenant}' AND id <= {key}")
                for one in [one for one in table.acknowledged if one[0] == tenant and one[1] <= key]:
                    del table.acknowledged[one]
            case "merge":
                merge(table.lake_table)
            case "clean":
                clean(table.lake_table, CleanPolicy(grace_seconds=0), delete=True)
            case "reopen":
                table.close()
        table.check()


@pytest.mark.slow
def test_a_table_that_the_gateway_made_is_written_by_both(both: Making):
    table = both("bucket")
    table.sql(
        "CREATE TABLE u (id BIGINT PRIMARY KEY, v BIGINT) WITH (region_by = 'bucket(id, 1)')", flush=False
    )
    schema = lance.dataset(table.root / "u.lance").schema
    expected = {}
    for turn in range(3):
        table.sql(f"INSERT INTO u VALUES (1, {turn}), ({10 + turn}, {turn})", flush=False)
        table.engine.catalog.table("u").writer().flush()
        merging = lancedb.connect(table.root).open_table("u").merge_insert("id")
        merging = merging.when_matched_update_all().when_not_matched_insert_all()
        merging.execute(pa.table({"id": [2, 20 + turn], "v": [turn, turn]}, schema=schema))
        expected |= {1: turn, 10 + turn: turn, 2: turn, 20 + turn: turn}
        found = table.engine.execute("SELECT id, v FROM u").read_all().to_pylist()
        assert {one["id"]: one["v"] for one in found} == expected
        assert len(found) == len(expected)


@pytest.mark.slow
@pytest.mark.parametrize("kind", sample(KINDS, 1))
def test_batches_of_spark_find_the_regions_of_lancedb(both: Making, kind: Kind):
    table = both(kind)
    for tenant in TENANTS:
        table.by_lancedb(tenant, (1, 1), (2, 2))
    regions = table.regions()
    rows = [{"tenant": tenant, "id": 2, "v": 7} for tenant in TENANTS]

    Batch(table.lake_table, build_table(rows, SCHEMA), "job", 0).run()

    assert table.regions() == regions
    table.acknowledged |= {(tenant, 2): 7 for tenant in TENANTS}
    table.by_lancedb("ann", (2, 8))
    table.check()


VALUES = [
    *((getattr(pa, f"{sign}int{width}")(), 7) for sign in ("", "u") for width in (8, 16, 32, 64)),
    (pa.string(), "ä"),
    (pa.large_string(), "b"),
    (pa.bool_(), True),
    (pa.int64(), -1),
    (pa.string(), ""),
]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bucket", "identity"])
def test_ids_of_values_of_every_type_are_those_of_lancedb(root: Path, kind: str):
    connection = lancedb.connect(root)
    for number, (data_type, value) in enumerate(VALUES):
        schema = pa.schema([key_field("id", pa.int64()), pa.field("c", data_type)])
        table = connection.create_table(f"t{number}", schema=schema)
        table.set_lsm_write_spec(
            LsmWriteSpec.bucket("c", 100) if kind == "bucket" else LsmWriteSpec.identity("c")
        )
        rows = pa.table({"id": [1], "c": pa.array([value], data_type)}, schema=schema)
        table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows)
        opened = OpenTable.open(f"t{number}", Storage.open(str(root / f"t{number}.lance")))
        (region_id,) = list_regions(opened.storage)
        manifest = read_latest_manifest(opened.storage, region_id)
        assert manifest is not None
        assert opened.route(rows).region_ids == (region_id,), data_type
        (found,) = find_region_values(opened.storage, opened.details.region_specs[0], manifest).values()
        if kind == "identity":
            decoded = decode_region_value(opened.details.region_specs[0].fields[0], found)
            assert decoded == value, data_type


def test_a_handle_of_lancedb_that_lost_its_region_says_so(both: Making):
    table = both("unsharded")
    handle = lancedb.connect(table.root).open_table("t")

    def write(v: int) -> None:
        merging = handle.merge_insert(list(KEY)).when_matched_update_all().when_not_matched_insert_all()
        merging.execute(pa.Table.from_pylist([{"tenant": "ann", "id": 1, "v": v}], SCHEMA))

    write(1)
    table.insert("ann", (1, 2))
    with pytest.raises(RuntimeError, match=r"fenced|epoch"):
        write(3)
    table.check()


def retry_by_lancedb(table: Both, tenant: str, *rows: tuple[int, int]) -> int:
    """LanceDB writes rows as soon as it is given the region; how often it was turned away."""
    pause, refused = threading.Event(), 0
    for _ in range(200):
        try:
            table.by_lancedb(tenant, *rows)
        except RuntimeError as error:
            is_refused = "schema doesn't match MemTable schema" in str(error)
            if not is_refused and "another writer claimed epoch" not in str(error):
                raise  # Both may claim it at once, as when the gateway flushes what it lost.
            refused += is_refused
            pause.wait(0.2)
        else:
            return refused
    pytest.fail("LanceDB was turned away for a minute")


@pytest.mark.slow
@pytest.mark.parametrize("statement", ["INSERT", "UPDATE"])
def test_a_region_is_handed_over_both_ways(both: Making, statement: str):
    """Lance 13 can't replay entries of Lance 14, but its attempt takes the region from the gateway."""
    table = both("unsharded", rows={("ann", 1): 0})
    table.hold_ms = 600
    turned_away = []
    for turn in range(4):
        if statement == "INSERT":
            table.insert("ann", (1, turn), (2, turn), flush=False)
        else:
            table.sql(f"UPDATE t SET v = {turn} WHERE id = 1", flush=False)
            table.acknowledged[("ann", 1)] = turn
        turned_away.append(retry_by_lancedb(table, "ann", (3, turn), (4 + turn, turn)))
        table.check()
    # Once the gateway knows of the other writer, it leaves nothing behind in the log.
    assert turned_away[0] > 0
    assert turned_away[1:] == [0, 0, 0]


@pytest.mark.slow
@pytest.mark.soak
def test_a_contested_claim_does_not_hide_who_was_turned_away(both: Making, monkeypatch: pytest.MonkeyPatch):
    """The first attempt to claim the region opens it, and only the second one succeeds."""
    contested: list[int] = []

    def open_claim(*given: Any) -> Claim:
        claim = lance_writers.open_claim(*given)
        if contested or claim.epoch == 1:
            return claim
        contested.append(claim.epoch)
        claim.abandon()
        raise lance_writers.ContestedError("claimed by several writers")

    monkeypatch.setattr(ownership, "open_claim", open_claim)
    table = both("unsharded", rows={("ann", 1): 0})
    table.hold_ms = 600
    table.insert("ann", (1, 0), flush=False)
    assert retry_by_lancedb(table, "ann", (3, 0)) > 0
    assert contested
    table.insert("ann", (1, 1), flush=False)
    assert retry_by_lancedb(table, "ann", (3, 1)) == 0
    table.check()


@pytest.mark.slow
def test_a_region_is_handed_over_while_the_gateway_writes_to_it(both: Making):
    table = both("unsharded")
    table.hold_ms = 600
    table.insert("ann", (0, 0), flush=False)
    ended = threading.Event()

    def write() -> int:
        number = 100
        while not ended.is_set():
            number += 1
            table.insert("ann", (number, number), flush=False)
        return number

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        for turn in range(3):
            retry_by_lancedb(table, "ann", (0, turn), (1 + turn, turn))
        ended.set()
        assert writing.result() > 100
    table.check()


@pytest.mark.slow
def test_a_handle_of_lancedb_goes_on_while_its_region_is_merged_and_cleaned_up(both: Making):
    table = both("unsharded")
    table.by_lancedb("ann", (1, 1), (2, 1), flush=True)
    handle = lancedb.connect(table.root).open_table("t")
    for turn in range(2, 5):
        merging = handle.merge_insert(list(KEY)).when_matched_update_all().when_not_matched_insert_all()
        merging.execute(pa.Table.from_pylist([{"tenant": "ann", "id": turn, "v": turn}], SCHEMA))
        table.acknowledged[("ann", turn)] = turn
        merge(table.lake_table)
        clean(table.lake_table, CleanPolicy(grace_seconds=0), delete=True)
        table.check()
    handle.close_lsm_writers()
    table.check()
    merge(table.lake_table)
    table.check()
