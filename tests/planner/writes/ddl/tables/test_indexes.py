"""CREATE INDEX, DROP INDEX and OPTIMIZE, beside rows that are not merged yet."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from tests.support.lake import manifests
from tests.support.lake.merging import merge_generations

Sql = Any
ROWS = 600


@pytest.fixture
def filled(sql: Sql) -> Sql:
    """Table t with merged rows, and some that are not."""
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, n INT, name TEXT, tags TEXT[], v FLOAT[8]) "
        "WITH (region_by = 'bucket(id, 1)')"
    )
    random = np.random.default_rng(7)
    rows = [
        {"id": at, "n": at % 7, "name": f"word{at % 11}", "tags": ["a", f"t{at % 3}"], "v": vector}
        for at, vector in enumerate(random.random((ROWS, 8), np.float32).tolist())
    ]
    schema = sql.dataset("t").schema
    lance.write_dataset(pa.Table.from_pylist(rows, schema), sql.root / "t.lance", mode="append")
    sql("INSERT INTO t SELECT id + 1000, n, name, tags, v FROM t WHERE id < 20")
    return sql


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "column", "options", "made"),
    [
        ("BTREE", "n", "", "BTree"),
        ("BITMAP", "n", "", "Bitmap"),
        ("ZONEMAP", "n", "", "ZoneMap"),
        ("BLOOMFILTER", "n", "", "BloomFilter"),
        ("LABEL_LIST", "tags", "", "LabelList"),
        ("NGRAM", "name", "", "NGram"),
        ("INVERTED", "name", "with_position = true, stem = false, language = 'german'", "Inverted"),
        ("FTS", "name", "base_tokenizer = 'whitespace', max_token_length = 30", "Inverted"),
        ("FTS", "name", "base_tokenizer = 'ngram', min_ngram_length = 2, max_ngram_length = 4", "Inverted"),
        ("IVF_FLAT", "v", "metric = cosine, num_partitions = 2", "IVF_FLAT"),
        ("IVF_PQ", "v", "num_partitions = 2, num_sub_vectors = 4, num_bits = 8", "IVF_PQ"),
        ("IVF_SQ", "v", "num_partitions = 2", "IVF_SQ"),
        ("IVF_RQ", "v", "num_partitions = 2", "IVF_RQ"),
        ("IVF_HNSW_SQ", "v", "num_partitions = 1, m = 8, ef_construction = 50", "IVF_HNSW_SQ"),
        ("IVF_HNSW_PQ", "v", "num_partitions = 1, num_sub_vectors = 4", "IVF_HNSW_PQ"),
        ("IVF_HNSW_FLAT", "v", "num_partitions = 1, metric = 'dot'", "IVF_HNSW_FLAT"),
    ],
)
def test_every_type_of_index(filled: Sql, kind: str, column: str, options: str, made: str) -> None:
    clause = f" WITH ({options})" if options else ""
    assert filled(f"CREATE INDEX i ON t USING {kind} ({column}){clause}") == -1
    ((name, columns, found, covered),) = filled(
        "SELECT index_name, columns, type, covered_fragments FROM system.indexes WHERE is_maintained"
    )
    assert (name, columns, found.upper(), covered) == ("i", [column], made.upper(), 1)
    filled("INSERT INTO t SELECT id + 2000, n, name, tags, v FROM t WHERE id < 20")
    assert filled("SELECT count(*) FROM t") == [(ROWS + 40,)]
    filled("DROP INDEX i")
    assert filled.engine.catalog.table("t").base().indexes == ()
    filled("INSERT INTO t SELECT id + 3000, n, name, tags, v FROM t WHERE id < 20")
    assert filled("SELECT count(*) FROM t WHERE n = 3") == [(86 + 9,)]


@pytest.mark.slow
def test_searches_find_rows_that_are_not_merged(filled: Sql) -> None:
    filled("CREATE INDEX words ON t USING FTS (name)")
    filled("INSERT INTO t (id, name) VALUES (5000, 'unheard')")
    assert filled("SELECT id FROM lance_fts('t', 'name', 'unheard')") == [(5000,)]
    filled("CREATE INDEX near ON t USING IVF_FLAT (v) WITH (num_partitions = 2)")
    filled("INSERT INTO t (id, v) VALUES (5001, [9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0])")
    nearest = "lance_vector_search('t', 'v', [9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0], k => 1)"
    assert filled(f"SELECT id FROM {nearest}") == [(5001,)]


def test_names_of_indexes(filled: Sql) -> None:
    filled("CREATE INDEX ON t (n)")
    with pytest.raises(AlreadyExistsError, match="'n_idx' already"):
        filled("CREATE INDEX n_idx ON t USING BITMAP (n)")
    filled("CREATE INDEX IF NOT EXISTS n_idx ON t USING BITMAP (n)")
    filled("CREATE OR REPLACE INDEX n_idx ON t USING BITMAP (n)")
    assert [one.type for one in filled.engine.catalog.table("t").base().indexes] == ["Bitmap"]
    filled("CREATE TABLE u (n INT)")
    filled("CREATE INDEX n_idx ON u (n)")
    with pytest.raises(InvalidInputError, match="DROP INDEX n_idx ON one"):
        filled("DROP INDEX n_idx")
    filled("DROP INDEX n_idx ON u")
    filled("DROP INDEX n_idx")
    assert filled("DROP INDEX IF EXISTS n_idx") == -1


def test_an_index_is_read_in_any_order(filled: Sql) -> None:
    filled("CREATE INDEX i ON t (n DESC NULLS LAST, name ASC)")
    assert filled("SELECT index_name, columns FROM system.indexes ORDER BY index_name") == [
        ("i_n", ["n"]),
        ("i_name", ["name"]),
    ]


def merge_all(root: Path) -> str:
    """Merge everything flushed of table t; its region."""
    (region,) = [path.name for path in (root / "t.lance" / "_mem_wal").iterdir()]
    flushed = manifests.read_manifest(root / "t.lance", region).flushed_generations
    merge_generations(root / "t.lance", region, max(one.generation for one in flushed))
    return region


@pytest.mark.slow
def test_optimize_compacts_and_catches_up_and_keeps_progress(filled: Sql, root: Path) -> None:
    filled("CREATE INDEX n_idx ON t (n)")
    for at in range(3):
        filled(f"INSERT INTO t (id, n) VALUES ({6000 + at}, 3)")
        filled.engine.catalog.table("t").writer().flush()
        region = merge_all(root)
    filled("INSERT INTO t (id, n) VALUES (7000, 3), (6000, 4)")
    merged = filled.details("t").merged_generations
    expected = filled("SELECT id, n FROM t ORDER BY id")
    (row,) = filled("OPTIMIZE t")
    assert row["fragments_before"] > row["fragments_after"] == 1
    assert row["indexes"] == ["n_idx", "id_idx"]
    assert row["version"] == filled.dataset("t").version
    details = filled.details("t")
    assert details.merged_generations == merged
    assert details.index_catchup["n_idx"][region] == merged[region]
    assert filled("SELECT id, n FROM t ORDER BY id") == expected
    assert filled("SELECT count(*) FROM t WHERE n = 3") == [(sum(n == 3 for _, n in expected),)]


def test_parts_of_optimize(filled: Sql) -> None:
    assert filled("OPTIMIZE TABLE t COMPACT")[0]["indexes"] == []
    filled("CREATE INDEX n_idx ON t (n)")
    assert filled("OPTIMIZE t INDEXES")[0]["files_removed"] == 0


def test_analyze_counts_what_there_is(filled: Sql) -> None:
    (row,) = filled("ANALYZE t")
    assert row["rows"] == ROWS + 20
    assert (row["base_rows"], row["regions"]) == (ROWS, 1)
    assert row["unflushed_rows"] + row["generation_rows"] == 20
    assert row["base_bytes"] > 0
    filled.engine.catalog.table("t").writer().flush()
    (row,) = filled("ANALYZE TABLE t")
    assert (row["generations"], row["generation_rows"], row["unflushed_rows"]) == (1, 20, 0)


@pytest.mark.slow
def test_changes_of_two_gateways_race_and_each_is_done(
    filled: Sql, root: Path, open_gateway: Callable[..., Sql]
) -> None:
    other = open_gateway(root)
    failures: list[BaseException] = []

    def run(gateway: Sql, statements: list[str]) -> None:
        try:
            for statement in statements:
                gateway(statement)
        except BaseException as error:  # noqa: BLE001 - told below
            failures.append(error)

    define = [
        statement
        for at in range(6)
        for statement in (f"ALTER TABLE t ADD COLUMN c{at} INT", f"CREATE INDEX x{at} ON t (c{at})")
    ]
    tidy = ["OPTIMIZE t"] * 6
    threads = [
        threading.Thread(target=run, args=(filled, define)),
        threading.Thread(target=run, args=(other, tidy)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert {f"c{at}" for at in range(6)} <= set(filled.dataset("t").schema.names)
    assert {"id_idx", *(f"x{at}" for at in range(6))} == {
        one.name for one in filled.engine.catalog.table("t").base().indexes
    }
    assert other("SELECT count(*) FROM t") == [(ROWS + 20,)]


def test_an_index_over_several_columns_is_one_for_each_and_goes_as_one(filled: Sql) -> None:
    indexes = "SELECT index_name, type, columns FROM system.indexes WHERE table_name = 't' ORDER BY 1"
    query = "SELECT count(*) FROM t WHERE n = 3 AND name = 'word5'"
    before = filled(query)
    filled("CREATE INDEX id_idx ON t (id)")
    filled("CREATE INDEX both ON t (n, name, id)")
    made = [("both_n", "BTree", ["n"]), ("both_name", "BTree", ["name"]), ("id_idx", "BTree", ["id"])]
    assert filled(indexes) == made  # the key had one already
    assert filled(query) == before
    with pytest.raises(AlreadyExistsError, match="'both' already"):
        filled("CREATE INDEX both ON t (n, name)")
    filled("CREATE INDEX IF NOT EXISTS both ON t (n, name)")
    filled("CREATE INDEX ON t USING BITMAP (n, name)")
    assert [name for name, _, _ in filled(indexes)][:2] == ["both_n", "both_name"]
    filled("DROP INDEX n_name_idx")
    # As one that was cut short left it.
    filled("DROP INDEX both_n ON t")
    filled("CREATE INDEX both ON t (n, name)")
    assert filled(indexes) == made
    filled("CREATE OR REPLACE INDEX both ON t USING BITMAP (n, id)")
    assert filled(indexes) == [("both_id", "Bitmap", ["id"]), ("both_n", "Bitmap", ["n"]), made[2]]
    filled("DROP INDEX both")
    assert filled(indexes) == made[2:]
    filled("DROP INDEX IF EXISTS both ON t")
    with pytest.raises(NotFoundError):
        filled("DROP INDEX both")
