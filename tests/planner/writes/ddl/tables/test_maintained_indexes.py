"""ALTER TABLE .. SET (maintained_indexes = ..): which indexes generations carry."""

import math
import random
import threading
from typing import Any

import lance
import pytest

from lance_gateway.memwal.errors import AlreadyExistsError, NotFoundError, PreconditionError, UnsupportedError
from lance_gateway.memwal.storage.table_names import TableName
from tests.planner.writes.ddl.versions.test_restore import flush, merge_all

Sql = Any


@pytest.fixture
def table(sql: Sql) -> Sql:
    """Table t with three indexes and merged rows."""
    sql("CREATE TABLE t (id INT PRIMARY KEY, s TEXT, n INT) WITH (key_index = false)")
    sql("INSERT INTO t VALUES (1, 'one', 1), (2, 'two', 2)")
    merge_all(sql)
    sql("CREATE INDEX n_idx ON t (n)")
    sql("CREATE INDEX words ON t USING FTS (s)")
    sql("CREATE INDEX bits ON t USING BITMAP (n)")
    return sql


def flushed_indexes(sql: Sql) -> set[str]:
    """Names of the indexes of the newest generation."""
    (manifest,) = sql.engine.catalog.table(TableName("t")).read_manifests()
    newest = max(manifest.flushed_generations, key=lambda one: one.generation)
    path = sql.root / "t.lance" / "_mem_wal" / manifest.region_id / newest.path
    return {one.name for one in lance.dataset(path).describe_indices()}


def test_generations_carry_what_is_named(table: Sql) -> None:
    merged = table.details("t").merged_generations
    for number, (value, named, all_of_them) in enumerate(
        [
            ("words", ("words",), False),
            ("", (), False),
            ("true", (), True),
            ("words, n_idx", ("words", "n_idx"), False),
        ]
    ):
        table(f"ALTER TABLE t SET (maintained_indexes = '{value}')")
        details = table.details("t")
        assert (details.maintained_indexes, details.maintain_all_indexes) == (named, all_of_them)
        assert details.merged_generations == merged
        table(f"INSERT INTO t VALUES ({10 + number}, 'three', 3)")
        flush(table)
        assert {"words", "n_idx"} & flushed_indexes(table) == (
            {"words", "n_idx"} if all_of_them else set(named)
        )
    version = table.dataset("t").version
    table("ALTER TABLE t SET (maintained_indexes = 'n_idx, words')")
    assert table.dataset("t").version == version
    found = table("SELECT id FROM lance_fts('t', 's', 'three') ORDER BY id")
    assert found == [(10,), (11,), (12,), (13,)]


def test_progress_of_merges_beside_it_is_kept(table: Sql) -> None:
    def alternate() -> None:
        for number in range(10):
            table(f"ALTER TABLE t SET (maintained_indexes = '{'words' if number % 2 else 'true'}')")

    thread = threading.Thread(target=alternate)
    thread.start()
    for number in range(5):
        table(f"INSERT INTO t VALUES ({100 + number}, 'x', 0)")
        merge_all(table)
    thread.join()
    assert table("SELECT count(*) FROM t") == [(7,)]
    assert table.dataset("t").count_rows() == 7


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ("maintained_indexes = 'word'", NotFoundError, "no index 'word': did you mean words"),
        ("maintained_indexes = 'bits'", UnsupportedError, "'bits' of table 't' is of type Bitmap"),
        ("region_by = 'bucket(id, 2)'", AlreadyExistsError, r"CLONE .. WITH \(region_by"),
    ],
)
def test_what_cannot_be_is_refused(table: Sql, options: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        table(f"ALTER TABLE t SET ({options})")


def test_a_table_without_a_mem_wal_has_none(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT) WITH (memwal = false)")
    with pytest.raises(PreconditionError, match="'t' has no MemWAL"):
        sql("ALTER TABLE t SET (maintained_indexes = '')")


def test_a_codebook_is_replaced_step_by_step(sql: Sql) -> None:
    """Build a second index, let writers maintain it, drop the first: answers are right after each step."""
    sql("CREATE TABLE p (id INT PRIMARY KEY, v FLOAT[4]) WITH (maintained_indexes = '', key_index = false)")
    rng = random.Random(1)
    points: dict[int, list[float]] = {}

    def write(keys: range) -> None:
        new = {key: [rng.random() for _ in range(4)] for key in keys}
        sql(f"INSERT INTO p VALUES {', '.join(f'({key}, {vector})' for key, vector in new.items())}")
        points.update(new)
        flush(sql, "p")

    def check() -> None:
        asked = [0.5, 0.25, 0.75, 0.5]
        found = sql(f"SELECT id FROM lance_vector_search('p', 'v', {asked}, k => 5, refine_factor => 50)")
        nearest = sorted(points, key=lambda key: math.dist(points[key], asked))[:5]
        assert {key for (key,) in found} == set(nearest)

    write(range(300))
    merge_all(sql, "p")
    options = "USING IVF_PQ (v) WITH (num_partitions = 1, num_sub_vectors = 2, num_bits = 4)"
    sql(f"CREATE INDEX near ON p {options}")
    sql("ALTER TABLE p SET (maintained_indexes = 'near')")
    write(range(300, 320))
    check()
    sql(f"CREATE INDEX nearer ON p {options}")
    check()
    sql("ALTER TABLE p SET (maintained_indexes = 'nearer')")
    write(range(320, 340))
    check()
    sql("DROP INDEX near ON p")
    check()
    write(range(340, 360))
    merge_all(sql, "p")
    check()
    names = {one.name for one in sql.dataset("p").describe_indices()}
    assert "nearer" in names
    assert "near" not in names
