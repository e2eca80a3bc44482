"""After each feature of tables, pylance's and LanceDB's own readers see what is merged, and go on writing."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import lance
import lancedb
import pyarrow as pa
import pytest

from lance_gateway.pipeline.cleaning import CleanPolicy, clean
from lance_gateway.pipeline.indexing import IndexPolicy, maintain
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.pipeline.merging import merge
from tests.support.processes.gateways import EngineGateway
from tests.support.sampling import sample

pytestmark = pytest.mark.slow

Rows = dict[int, int]


@dataclass(frozen=True)
class Lakeside:
    """Tables of a gateway, and how other readers see them."""

    root: Path
    gateway: EngineGateway

    def path(self, name: str) -> Path:
        return self.root / f"{name}.lance"

    def merge(self, name: str) -> None:
        self.gateway.flush(name)
        merge(LakeTable.at(str(self.path(name))))

    def by_gateway(self, name: str) -> Rows:
        return to_rows(self.gateway.read(f"SELECT id, v FROM {name}"))

    def by_pylance(self, name: str, version: int | str | None = None) -> Rows:
        return to_rows(lance.dataset(self.path(name), version=version).to_table(columns=["id", "v"]))

    def by_lancedb(self, name: str, version: int | str | None = None) -> Rows:
        table = lancedb.connect(self.root).open_table(name)
        if version is not None:
            table.checkout(version)
            return to_rows(table.search().use_lsm(enable=False).to_arrow())
        found = table.to_arrow()
        for key, value in to_rows(found).items():
            assert table.search().where(f"id = {key}").to_list()[0]["v"] == value
        return to_rows(found)


def to_rows(found: pa.Table) -> Rows:
    rows: Rows = dict(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True))
    assert len(rows) == found.num_rows, "a key is there twice"
    return rows


def keep_changes(lake: Lakeside) -> str:
    policy = CleanPolicy(grace_seconds=0, retain_versions=1, keep_changes_seconds=3600)
    clean(LakeTable.at(str(lake.path("t"))), policy, delete=True)
    return "t"


def clean_all(lake: Lakeside) -> str:
    lake.merge("t")
    clean(LakeTable.at(str(lake.path("t"))), CleanPolicy(grace_seconds=0, retain_versions=1), delete=True)
    return "t"


def clone(lake: Lakeside) -> str:
    lake.gateway.write("CREATE TABLE c CLONE t")
    assert lake.by_pylance("c") == lake.by_lancedb("c") == lake.by_gateway("t")
    return "c"


def clone_by_pylance(lake: Lakeside) -> str:
    lake.merge("t")
    dataset = lance.dataset(lake.path("t"))
    dataset.shallow_clone(str(lake.path("c")), dataset.version)
    return "c"


def tag(lake: Lakeside) -> str:
    rows = lake.by_pylance("t")
    lake.gateway.write("CREATE TAG release ON t")
    version = lance.dataset(lake.path("t")).version
    table = lancedb.connect(lake.root).open_table("t")
    assert {name: one["version"] for name, one in table.tags.list().items()} == {"release": version}
    lake.merge("t")
    assert lake.by_pylance("t", "release") == lake.by_lancedb("t", "release") == rows
    assert lake.by_lancedb("t", version) == rows
    return "t"


def branch(lake: Lakeside) -> str:
    lake.merge("t")
    rows = lake.by_gateway("t")
    lake.gateway.write("CREATE BRANCH trial ON t")
    found = lance.dataset(lake.path("t")).checkout_version(("trial", None)).to_table(columns=["id", "v"])
    assert to_rows(found) == rows
    return "t"


def restore(lake: Lakeside) -> str:
    version, rows = lance.dataset(lake.path("t")).version, lake.by_pylance("t")
    lake.merge("t")
    assert lake.by_pylance("t") != rows
    lake.gateway.write(f"RESTORE TABLE t TO VERSION {version}")
    lake.merge("t")
    assert lake.by_gateway("t") == lake.by_pylance("t") == lake.by_lancedb("t") == rows
    return "t"


def add_base(lake: Lakeside) -> str:
    other = lake.root.parent / "other"
    other.mkdir()
    dataset = lance.dataset(lake.path("t"))
    dataset.add_bases([lance.DatasetBasePath(str(other), "other", is_dataset_root=True, id=1)])
    rows = pa.Table.from_pylist([{"id": 50, "v": 50}, {"id": 51, "v": 51}], schema=dataset.schema)
    lance.write_dataset(rows, lake.path("t"), mode="append", target_bases=["other"])
    assert lake.by_gateway("t").items() >= {50: 50, 51: 51}.items()
    lake.gateway.write("UPDATE t SET v = 510 WHERE id = 51")
    return "t"


def maintain_indexes(lake: Lakeside) -> str:
    lake.gateway.write("CREATE INDEX by_value ON t USING BTREE (v)")
    lake.gateway.write("ALTER TABLE t SET (maintained_indexes = 'by_value')")
    lake.gateway.write("INSERT INTO t VALUES (60, 60)")
    lake.merge("t")
    maintain(LakeTable.at(str(lake.path("t"))), IndexPolicy(max_spare_fragments=0))
    table = lancedb.connect(lake.root).open_table("t")
    assert "by_value" in {one.name for one in table.list_indices()}
    assert table.search().where("v = 60").to_list()[0]["id"] == 60
    return "t"


def keep_row_ids(lake: Lakeside) -> str:
    lake.gateway.write("CREATE TABLE s (id BIGINT PRIMARY KEY, v BIGINT) WITH (stable_row_ids = true)")
    lake.gateway.write("INSERT INTO s SELECT id, v FROM t")
    lake.merge("s")
    before = lance.dataset(lake.path("s")).to_table(columns=["id", "_rowid"]).to_pylist()
    lake.gateway.write("UPDATE s SET v = v + 1 WHERE id = 1")
    lake.merge("s")
    lance.dataset(lake.path("s")).optimize.compact_files()
    after = lance.dataset(lake.path("s")).to_table(columns=["id", "_rowid"]).to_pylist()
    assert sorted(map(repr, after)) == sorted(map(repr, before))
    return "s"


FEATURES: tuple[Callable[[Lakeside], str], ...] = (
    keep_changes,
    clean_all,
    clone,
    clone_by_pylance,
    tag,
    branch,
    restore,
    add_base,
    maintain_indexes,
    keep_row_ids,
)


@pytest.fixture
def lake(root: Path) -> Iterator[Lakeside]:
    """Table t: rows 1 to 8 are merged, 1 and 2 have changed since, 3 is gone, and 9 is new."""
    lake = Lakeside(root, EngineGateway(root))
    lake.gateway.write("CREATE TABLE t (id BIGINT PRIMARY KEY, v BIGINT) WITH (region_by = 'bucket(id, 2)')")
    lake.gateway.write("INSERT INTO t SELECT value, value FROM generate_series(1, 8)")
    lake.merge("t")
    lake.gateway.write("UPDATE t SET v = v + 10 WHERE id < 3")
    lake.gateway.write("DELETE FROM t WHERE id = 3")
    lake.gateway.flush("t")
    lake.gateway.write("INSERT INTO t VALUES (9, 9)")
    yield lake
    lake.gateway.close()


@pytest.mark.parametrize("feature", sample(FEATURES, 5))
def test_others_read_and_write_on(lake: Lakeside, feature: Callable[[Lakeside], str]) -> None:
    assert lake.by_pylance("t") == {key: key for key in range(1, 9)}
    # LanceDB reads flushed generations, too.
    assert lake.by_lancedb("t") == {1: 11, 2: 12, **{key: key for key in range(4, 9)}}
    name = feature(lake)
    lake.gateway.write(f"UPDATE {name} SET v = v + 100 WHERE id IN (4, 9, 50)")
    lake.gateway.write(f"DELETE FROM {name} WHERE id = 5")
    lake.gateway.write(f"INSERT INTO {name} VALUES (40, 40)")
    lake.merge(name)
    rows = lake.by_gateway(name)
    assert rows.items() >= {40: 40, 4: 104}.items()
    assert 5 not in rows
    assert lake.by_pylance(name) == lake.by_lancedb(name) == rows
    dataset = lance.dataset(lake.path(name))
    given = pa.Table.from_pylist([{"id": 6, "v": 600}, {"id": 70, "v": 700}], schema=dataset.schema)
    dataset.merge_insert(["id"]).when_matched_update_all().when_not_matched_insert_all().execute(given)
    rows |= {6: 600, 70: 700}
    assert lake.by_gateway(name) == lake.by_pylance(name) == lake.by_lancedb(name) == rows
    if name != "t":
        assert lake.by_gateway("t") == {1: 11, 2: 12, **{key: key for key in range(4, 10)}}
