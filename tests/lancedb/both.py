"""A table that LanceDB and the gateway write, and a replay of what both acknowledged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import lance
import lancedb
import pyarrow as pa
from lancedb import LsmWriteSpec

from lance_gateway.memwal.base.index_details import RegionSpec, read_index_details
from lance_gateway.memwal.regions.manifest import (
    RegionManifest,
    commit_manifest,
    list_regions,
    read_latest_manifest,
)
from lance_gateway.memwal.regions.region_ids import derive_lancedb_region_id, derive_own_region_id
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.memwal.transforms.transforms import compute_region_values, encode_region_value
from lance_gateway.memwal.writing import WriteOptions
from lance_gateway.pipeline.jobs.lake import Lake, LakeTable
from lance_gateway.planner.engine import DEFAULT_SETTINGS, PreparedQuery, QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.support.lake.tables import key_field

Kind = Literal["bucket", "identity", "unsharded"]
KINDS: tuple[Kind, ...] = ("bucket", "identity", "unsharded")
SCHEMA = pa.schema(
    [key_field("tenant", pa.string(), 1), key_field("id", pa.int64(), 2), pa.field("v", pa.int64())]
)
KEY = ("tenant", "id")
TENANTS = ("ann", "bob", "eve")


@dataclass
class Both:
    """Table `t` in a root; its key is `tenant`, `id`, and its regions follow from `tenant`."""

    root: Path
    kind: Kind
    acknowledged: dict[tuple[str, int], int] = field(default_factory=dict)
    hold_ms: int = 0
    _engine: QueryEngine | None = None

    @staticmethod
    def create(root: Path, kind: Kind, rows: Mapping[tuple[str, int], int] | None = None) -> Both:
        """LanceDB makes the table."""
        found = Both(root, kind)
        given = [{"tenant": tenant, "id": key, "v": v} for (tenant, key), v in (rows or {}).items()]
        table = lancedb.connect(root).create_table("t", pa.Table.from_pylist(given, SCHEMA), schema=SCHEMA)
        specs = {
            "bucket": lambda: LsmWriteSpec.bucket("tenant", 4),
            "identity": lambda: LsmWriteSpec.identity("tenant"),
            "unsharded": LsmWriteSpec.unsharded,
        }
        table.set_lsm_write_spec(specs[kind]())
        found.acknowledged |= rows or {}
        return found

    @property
    def storage(self) -> Storage:
        return Storage.open(str(self.root / "t.lance"))

    @property
    def lake_table(self) -> LakeTable:
        return Lake.open(str(self.root)).table("t")

    @property
    def spec(self) -> RegionSpec:
        details = read_index_details(self.storage, lance.dataset(self.storage.uri).version)
        assert details is not None
        return details.region_specs[0]

    @property
    def engine(self) -> QueryEngine:
        if self._engine is None:
            writing = WriteOptions(hold_ms=self.hold_ms)
            self._engine = QueryEngine(Catalog.open(str(self.root), writing=writing))
        return self._engine

    def regions(self) -> tuple[str, ...]:
        return list_regions(self.storage)

    def manifest(self, region_id: str) -> RegionManifest:
        found = read_latest_manifest(self.storage, region_id)
        assert found is not None
        return found

    def by_lancedb(self, tenant: str, *rows: tuple[int, int], flush: bool = False) -> None:
        """LanceDB upserts rows of one tenant, by a handle of its own."""
        table = lancedb.connect(self.root).open_table("t")
        given = [{"tenant": tenant, "id": key, "v": v} for key, v in rows]
        merge = table.merge_insert(list(KEY)).when_matched_update_all().when_not_matched_insert_all()
        merge.execute(pa.Table.from_pylist(given, SCHEMA))
        if flush:
            table.close_lsm_writers()
        self.acknowledged |= {(tenant, key): v for key, v in rows}

    def by_lance(
        self, region_id: str, tenant: str, *rows: tuple[int, int], gone: tuple[int, ...] = ()
    ) -> None:
        """Lance's own writer writes to a region, as gateways of version 0.6 do."""
        dataset = lance.dataset(self.storage.uri)
        with dataset.mem_wal_writer(region_id, durable_write=True) as writer:
            if rows:
                given = [{"tenant": tenant, "id": key, "v": v} for key, v in rows]
                writer.put(pa.Table.from_pylist(given, dataset.schema))
            if gone:
                keys = [{"tenant": tenant, "id": key} for key in gone]
                writer.delete(
                    pa.Table.from_pylist(keys, pa.schema([dataset.schema.field(one) for one in KEY]))
                )
        self.acknowledged |= {(tenant, key): v for key, v in rows}
        for key in gone:
            del self.acknowledged[(tenant, key)]

    def sql(self, statement: str, *, flush: bool = True) -> None:
        """The gateway executes a statement; its rows are flushed, as an idle gateway's are."""
        prepared = self.engine.prepare_statement(statement, DEFAULT_SETTINGS)
        assert not isinstance(prepared, PreparedQuery)
        prepared.execute([])
        if flush:
            self.flush()

    def insert(self, tenant: str, *rows: tuple[int, int], flush: bool = True) -> None:
        """The gateway upserts rows."""
        values = ", ".join(f"('{tenant}', {key}, {v})" for key, v in rows)
        self.sql(f"INSERT INTO t VALUES {values}", flush=flush)
        self.acknowledged |= {(tenant, key): v for key, v in rows}

    def flush(self) -> None:
        """Lance 13, which LanceDB is built on, can't replay what Lance 14 has in the log."""
        self.engine.catalog.table("t").writer().flush()

    def rows(self, condition: str = "true") -> list[tuple[str, int, int]]:
        """What the gateway reads."""
        read = self.engine.execute(f"SELECT tenant, id, v FROM t WHERE {condition}").read_all()
        return sorted((one["tenant"], one["id"], one["v"]) for one in read.to_pylist())

    def check(self) -> None:
        """The gateway reads what was acknowledged: all of it, and by tenant, which prunes regions."""
        expected = sorted((*key, v) for key, v in self.acknowledged.items())
        assert self.rows() == expected
        for tenant in TENANTS:
            assert self.rows(f"tenant = '{tenant}'") == [one for one in expected if one[0] == tenant]

    def make_own_region(self, tenant: str) -> tuple[str, str]:
        """A tenant's region as versions up to 0.6 named it; its id, and that which LanceDB gives it."""
        spec = self.spec
        (only,) = spec.fields
        (found,) = compute_region_values(spec, {0: pa.array([tenant])})
        raw = encode_region_value(only, found[0])
        region_id = derive_own_region_id(spec, (raw,))
        assert commit_manifest(
            self.storage, RegionManifest(region_id, 1, 0, 0, 0, 1, (), spec.spec_id, {only.field_id: raw})
        )
        named = derive_lancedb_region_id(spec, (raw,))
        assert named is not None
        return region_id, named

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None
