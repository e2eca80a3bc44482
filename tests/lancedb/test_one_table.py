"""LanceDB and the gateway write one table: every key has one region, and no acknowledged write is lost."""

from collections.abc import Callable

import pytest

from pipeline.cleaning import CleanPolicy, clean
from pipeline.merging import merge
from pipeline.state import TableState
from tests.lancedb.both import KINDS, TENANTS, Both, Kind

Making = Callable[..., Both]


@pytest.mark.parametrize("kind", KINDS)
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
    assert len(table.regions()) == (1 if kind == "unsharded" else len({*table.regions()}))
    for region_id in table.regions():
        values = table.engine.execute(
            f"SELECT region_values FROM system.regions WHERE region_id = '{region_id}'"
        ).read_all()
        assert values.num_rows == 1
    named = {"bucket": 3, "identity": 3, "unsharded": 1}[kind]
    assert len(table.regions()) <= named


@pytest.mark.parametrize("kind", KINDS)
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


@pytest.mark.parametrize("kind", KINDS)
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
    assert not any(
        one.pending for one in TableState.read(table.lake_table).regions.values() if one.manifest.sealed
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_region_of_lancedb_is_pruned_by_its_id(both: Making, kind: Kind):
    table = both(kind)
    for tenant in TENANTS:
        table.by_lancedb(tenant, (1, 1))
    plan = table.engine.execute("EXPLAIN SELECT * FROM t WHERE tenant = 'ann'").read_all().to_pylist()
    text = "\n".join(str(value) for row in plan for value in row.values())
    expected = {"bucket": len(table.regions()) - 1, "identity": 2, "unsharded": 0}[kind]
    assert text.count("excludes") == expected, text


def test_a_region_that_anybody_named_is_not_pruned(both: Making):
    table = both("identity")
    table.by_lancedb("ann", (1, 1))
    import lance

    with lance.dataset(table.storage.uri).mem_wal_writer("01234567-89ab-5def-8123-456789abcdef") as rival:
        import pyarrow as pa

        rival.put(
            pa.table({"tenant": ["bob"], "id": [1], "v": [5]}, schema=lance.dataset(table.storage.uri).schema)
        )
    table.acknowledged[("bob", 1)] = 5
    table.check()
