"""Columns of blobs, of both kinds, wherever their rows are: values are plain bytes in every statement."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_gateway.execnodes.storage.blob_rows import choose_batch_rows
from lance_gateway.memwal.columns.blobs import BATCH_BYTES
from lance_gateway.memwal.errors import CorruptDataError, InvalidInputError
from lance_gateway.memwal.regions.manifest import list_regions
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.pipeline.cleaning import CleanPolicy, Kind, clean
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.pipeline.merging.job import merge
from lance_gateway.pipeline.snapshotting.backup import back_up
from lance_gateway.pipeline.snapshotting.restore import restore
from lance_gateway.planner.access.rights import TableAccess
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.planner.writes.dml.lake import Lake
from tests.support.judging.principals import create_principal
from tests.support.lake.tables import key_field

ENCODED = pa.field("data", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
"""Blobs of file versions before 2.2."""
STRUCT = lance.blob_field("data", inline_size_threshold=10, dedicated_size_threshold=1000)
BLOBS = {"2.0": (ENCODED, "2.0"), "2.1": (ENCODED, "2.1"), "2.2": (STRUCT, "2.2")}
"""Columns by file version."""
SMALL, PACKED, DEDICATED = b"small", b"p" * 100, b"d" * 5_000
"""Lance keeps blobs of the second kind in the row, in a file with others, or in one of their own."""
REGION = "aa48498d-ac91-59e2-8452-69f46010ace2"
"""Of a table that is not sharded."""


def store(blobs: list[bytes | None], field: pa.Field) -> pa.Array:
    """Blobs as Lance takes them for a column."""
    return pa.array(blobs, field.type) if pa.types.is_large_binary(field.type) else lance.blob_array(blobs)


@dataclass
class Files:
    """A table of files, and what it must have.

    Attributes:
        root: of the catalog.
        field: the column of blobs.
        rows: key -> name and data.
        writer: Lance's own, of the log.
    """

    root: Path
    field: pa.Field
    rows: dict[int, tuple[str, bytes | None]]
    writer: Any = None

    @property
    def uri(self) -> str:
        return str(self.root / "files.lance")

    @property
    def table(self) -> LakeTable:
        return LakeTable.at(self.uri)

    def build(self, rows: dict[int, tuple[str, bytes | None]]) -> pa.Table:
        schema = pa.schema([key_field("id", pa.int64()), pa.field("name", pa.string()), self.field])
        names, blobs = [one[0] for one in rows.values()], [one[1] for one in rows.values()]
        return pa.table([pa.array(rows), pa.array(names), store(blobs, self.field)], schema=schema)

    def write(self, writer: Any, rows: dict[int, tuple[str, bytes | None]]) -> None:
        """Write to the log by Lance's own writer."""
        writer.put(self.build(rows))
        self.rows |= rows

    def check(self, lake: Lake) -> None:
        """Check statements over all rows, over some, and with conditions on blobs."""
        found = {row["id"]: (row["name"], row["data"]) for row in lake.read("SELECT * FROM files")}
        assert found == self.rows
        for number, (name, data) in self.rows.items():
            assert lake.read(f"SELECT data, name FROM files WHERE id = {number}") == [
                {"data": data, "name": name}
            ]
        missing = [{"id": number} for number, (_, data) in sorted(self.rows.items()) if data is None]
        assert lake.read("SELECT id FROM files WHERE data IS NULL ORDER BY id") == missing
        small = [{"id": number} for number, (_, data) in sorted(self.rows.items()) if data == SMALL]
        assert lake.read(f"SELECT id FROM files WHERE data = x'{SMALL.hex()}' ORDER BY id") == small
        assert lake.read("SELECT count(data) n FROM files") == [{"n": len(self.rows) - len(missing)}]


@pytest.fixture
def open_lake() -> Iterator[Callable[[Path], Lake]]:
    with ExitStack() as stack:

        def open_root(root: Path) -> Lake:
            engine = QueryEngine(Catalog.open(str(root)))
            stack.callback(engine.close)
            return Lake(engine)

        yield open_root


@pytest.fixture(params=BLOBS.values(), ids=BLOBS.keys())
def files(request: pytest.FixtureRequest, root: Path) -> Files:
    """Rows in the base table, a generation and the log; some of them replace others."""
    field, version = request.param
    made = Files(root, field, {})
    base: dict[int, tuple[str, bytes | None]] = {
        1: ("one", SMALL),
        2: ("two", None),
        3: ("three", PACKED),
        4: ("four", b""),
    }
    dataset = lance.write_dataset(made.build(base), made.uri, data_storage_version=version)
    dataset.initialize_mem_wal(unsharded=True)
    made.rows |= base
    with lance.dataset(made.uri).mem_wal_writer(REGION) as writer:
        made.write(writer, {2: ("generation", PACKED), 5: ("five", DEDICATED), 6: ("six", None)})
    made.writer = lance.dataset(made.uri).mem_wal_writer(REGION)
    made.write(made.writer, {3: ("log", DEDICATED), 7: ("seven", SMALL), 8: ("eight", PACKED)})
    made.write(made.writer, {9: ("nine", None), 7: ("again", PACKED)})
    return made


@pytest.mark.slow
def test_blobs_are_bytes_in_every_state(files: Files, open_lake: Callable[[Path], Lake]) -> None:
    lake = open_lake(files.root)
    files.check(lake)
    files.writer.close()
    files.check(lake)
    lake.write("INSERT INTO files VALUES (10, 'ten', 'small'), (11, 'eleven', $1)", PACKED)
    lake.write("UPDATE files SET name = 'renamed' WHERE id IN (2, 3, 8, 9)")
    lake.write("UPDATE files SET data = $1 WHERE id = 1", DEDICATED)
    lake.write("DELETE FROM files WHERE id = 5")
    lake.write(
        "MERGE INTO files f USING (SELECT id, data FROM files WHERE id = 3) s ON f.id = s.id + 3 "
        "WHEN MATCHED THEN UPDATE SET data = s.data"
    )
    del files.rows[5]
    files.rows |= {10: ("ten", SMALL), 11: ("eleven", PACKED), 1: ("one", DEDICATED)}
    files.rows |= {number: ("renamed", files.rows[number][1]) for number in (2, 3, 8, 9)}
    files.rows[6] = ("six", DEDICATED)
    files.check(lake)
    files.check(open_lake(files.root))  # whose rows of the log are read from storage
    lake.engine.close()
    assert merge(files.table).left == 0
    merged = open_lake(files.root)
    files.check(merged)
    merged.write("CREATE TABLE clone CLONE files")
    kept = {row["id"]: (row["name"], row["data"]) for row in merged.read("SELECT * FROM clone")}
    assert kept == files.rows
    clone = lance.dataset(str(files.root / "clone.lance"))
    assert clone.schema.field("data").type == STRUCT.type
    merged.write("CREATE TABLE bytes AS SELECT id, data FROM files")
    assert merged.read("SELECT count(*) n FROM bytes b JOIN files f ON b.id = f.id AND b.data = f.data") == [
        {"n": sum(data is not None for _, data in files.rows.values())}
    ]


@pytest.mark.slow
@pytest.mark.parametrize("stable_row_ids", [False, True])
@pytest.mark.parametrize(("field", "version"), BLOBS.values(), ids=BLOBS.keys())
def test_tables_without_a_key_rewrite_rows_with_their_blobs(
    root: Path, open_lake: Callable[[Path], Lake], field: pa.Field, version: str, stable_row_ids: bool
) -> None:
    rows = {"id": [1, 2, 3], "name": ["a", "b", "c"]}
    table = pa.table(
        [*rows.values(), store([SMALL, None, PACKED], field)],
        schema=pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string()), field]),
    )
    lance.write_dataset(
        table, str(root / "files.lance"), data_storage_version=version, enable_stable_row_ids=stable_row_ids
    )
    lake = open_lake(root)
    lake.write("INSERT INTO files VALUES (4, 'd', 'small')")
    lake.write("UPDATE files SET name = 'x' WHERE id IN (1, 3)")
    lake.write("UPDATE files SET data = $1 WHERE id = 2", PACKED)
    returned = lake.write("DELETE FROM files WHERE id = 4 RETURNING data").rows
    assert returned is not None
    assert returned.to_pylist() == [{"data": SMALL}]
    assert lake.read("SELECT * FROM files ORDER BY id") == [
        {"id": 1, "name": "x", "data": SMALL},
        {"id": 2, "name": "b", "data": PACKED},
        {"id": 3, "name": "x", "data": PACKED},
    ]


@pytest.mark.slow
def test_searches_changes_and_the_past_carry_blobs(files: Files, open_lake: Callable[[Path], Lake]) -> None:
    lake = open_lake(files.root)
    lake.write("CREATE INDEX ON files USING FTS (name)")
    for term, number in (("one", 1), ("generation", 2), ("log", 3)):
        found = lake.read(f"SELECT id, data FROM lance_fts('files', 'name', '{term}', k => 3)")
        assert found == [{"id": number, "data": files.rows[number][1]}]
    found = lake.read(
        "SELECT id, data FROM lance_fts('files', 'name', 'four five six seven eight', k => 9) "
        "WHERE data IS NOT NULL"
    )
    assert {row["id"]: row["data"] for row in found} == {4: b"", 5: DEDICATED, 8: PACKED}
    changes = lake.read("SELECT id, data FROM lance_changes('files', since => 1) WHERE _change <> 'delete'")
    assert {row["id"]: row["data"] for row in changes}.items() >= {
        3: DEDICATED,
        5: DEDICATED,
        9: None,
    }.items()
    past = lake.read("SELECT id, data FROM files VERSION AS OF 1 ORDER BY id")
    assert [row["data"] for row in past] == [SMALL, None, PACKED, b""]


@pytest.mark.slow
def test_policies_hold_for_blobs(files: Files, open_lake: Callable[[Path], Lake]) -> None:
    lake = open_lake(files.root)
    filtered = create_principal(files=TableAccess(row_filter="data IS NOT NULL"))
    masked = create_principal(files=TableAccess(masks={"data": "CAST('hidden' AS BYTEA)"}))
    hidden = create_principal(files=TableAccess(hidden_columns=frozenset({"data"})))
    rows = lake.engine.prepare("SELECT id FROM files", access=filtered).execute().read_all()
    assert sorted(rows.column("id").to_pylist()) == [1, 2, 3, 4, 5, 7, 8]
    rows = lake.engine.prepare("SELECT data FROM files", access=masked).execute().read_all()
    assert set(rows.column("data").to_pylist()) == {b"hidden"}
    rows = lake.engine.prepare("SELECT * FROM files", access=hidden).execute().read_all()
    assert rows.column_names == ["id", "name"]


@pytest.mark.parametrize(("field", "version"), BLOBS.values(), ids=BLOBS.keys())
def test_other_tables_of_the_root_are_described(
    root: Path, open_lake: Callable[[Path], Lake], field: pa.Field, version: str
) -> None:
    schema = pa.schema([pa.field("id", pa.int64()), field])
    rows = pa.table([[1], store([SMALL], field)], schema=schema)
    lance.write_dataset(rows, str(root / "files.lance"), data_storage_version=version)
    lance.write_dataset(pa.table({"a": [1]}), str(root / "other.lance"))
    lake = open_lake(root)
    listed = lake.read(
        "SELECT table_name t, column_name c, data_type d FROM information_schema.columns "
        "WHERE table_schema = 'main'"
    )
    assert {(row["t"], row["c"]): row["d"] for row in listed} == {
        ("files", "id"): "bigint",
        ("files", "data"): "bytea",
        ("other", "a"): "bigint",
    }
    lake.write("ALTER TABLE files ADD COLUMN note TEXT")
    lake.write("ALTER TABLE files RENAME COLUMN data TO contents")
    assert lake.read("SELECT * FROM files") == [{"id": 1, "contents": SMALL, "note": None}]
    lake.write("ALTER TABLE files ALTER COLUMN contents SET DEFAULT 'none'")
    lake.write("ALTER TABLE files ADD CHECK (contents <> 'bad')")
    lake.write("INSERT INTO files (id) VALUES (2)")
    with pytest.raises(InvalidInputError, match="CHECK"):
        lake.write("INSERT INTO files VALUES (3, 'bad', NULL)")
    assert lake.read("SELECT contents FROM files WHERE id > 1") == [{"contents": b"none"}]


@pytest.mark.parametrize("shape", ["struct", "list"])
def test_blobs_within_other_values(root: Path, open_lake: Callable[[Path], Lake], shape: str) -> None:
    blobs = lance.blob_array([SMALL, PACKED, None] if shape == "struct" else [SMALL, PACKED, SMALL, None])
    if shape == "struct":
        column: pa.Array = pa.StructArray.from_arrays([blobs], fields=[lance.blob_field("x")])
        values: list[Any] = [{"x": SMALL}, {"x": PACKED}, {"x": None}]
    else:
        column = pa.ListArray.from_arrays(pa.array([0, 2, 3, 4], pa.int32()), blobs)
        values = [[SMALL, PACKED], [SMALL], [None]]
    schema = pa.schema([key_field("id", pa.int64()), pa.field("n", column.type)])
    rows = pa.table([[1, 2, 3], column], schema=schema)
    dataset = lance.write_dataset(rows, str(root / "t.lance"), data_storage_version="2.2")
    dataset.initialize_mem_wal(unsharded=True)
    lake = open_lake(root)
    lake.write("INSERT INTO t SELECT id + 3, n FROM t")
    both = [*values, *values]
    for _ in range(2):
        assert [row["n"] for row in lake.read("SELECT n FROM t ORDER BY id")] == both
        assert lake.read("SELECT n FROM t WHERE id = 5") == [{"n": both[4]}]
        lake.engine.close()
        merge(LakeTable.at(str(root / "t.lance")))
        lake = open_lake(root)


def test_a_batch_has_few_rows_where_blobs_are_large(root: Path, open_lake: Callable[[Path], Lake]) -> None:
    size, rows = 1 << 19, 40
    schema = pa.schema([pa.field("id", pa.int64()), ENCODED])
    table = pa.table([range(rows), pa.array([b"x" * size] * rows, pa.large_binary())], schema=schema)
    lance.write_dataset(table, str(root / "files.lance"), data_storage_version="2.1")
    lake = open_lake(root)
    source = lake.engine.catalog.table("files").base().source
    assert choose_batch_rows(source, [0], ["id", "data"]) == BATCH_BYTES // size
    assert choose_batch_rows(source, [0], ["id"]) > rows
    largest = max(batch.num_rows for batch in lake.engine.execute("SELECT id, data FROM files"))
    assert largest <= BATCH_BYTES // size
    keys = ", ".join(map(str, range(rows)))
    few = lake.engine.execute(f"SELECT data FROM files WHERE id IN ({keys})")
    assert sum(batch.num_rows for batch in few) == rows


def test_files_with_blobs_of_the_log_are_kept_and_missed_by_name(
    root: Path, open_lake: Callable[[Path], Lake]
) -> None:
    files = Files(root, STRUCT, {})
    dataset = lance.write_dataset(files.build({1: ("one", SMALL)}), files.uri, data_storage_version="2.2")
    dataset.initialize_mem_wal(unsharded=True)
    writer = lance.dataset(files.uri).mem_wal_writer(REGION)
    writer.put(files.build({2: ("two", PACKED)}))
    successor = lance.dataset(files.uri).mem_wal_writer(REGION)
    policy = CleanPolicy(0, 0, 1)
    report = clean(files.table, policy, delete=True, clock=lambda: 4_000_000_000)
    assert [one.reason for one in report.kept if one.kind is Kind.DIRECTORIES] == [
        "log entries of generation 1 may have blobs in it"
    ]
    (region,) = list_regions(Storage.open(files.uri))
    (blob,) = (Path(files.uri) / "_mem_wal" / region).rglob("*.blob")
    assert open_lake(root).read("SELECT data FROM files WHERE id = 2") == [{"data": PACKED}]
    blob.rename(blob.with_suffix(".away"))
    with pytest.raises(CorruptDataError, match=r"\.blob is gone, and has blobs of the log"):
        open_lake(root).read("SELECT data FROM files WHERE id = 2")
    blob.with_suffix(".away").rename(blob)
    successor.close()


@pytest.mark.slow
def test_backups_have_blobs_of_the_log(
    files: Files, tmp_path: Path, open_lake: Callable[[Path], Lake]
) -> None:
    place, other = Storage.open(str(tmp_path / "backups")), tmp_path / "other"
    other.mkdir()
    restore(place, back_up(files.table, place).backup, Storage.open(str(other)))
    files.writer.close()
    restored = open_lake(other)
    files.check(restored)
    restored.write("UPDATE files SET name = 'restored' WHERE id = 3")  # flushes what the log has
    files.rows[3] = ("restored", files.rows[3][1])
    restored.engine.close()
    merge(LakeTable.at(str(other / "files.lance")))
    files.check(open_lake(other))
