"""Tables with two region specs are read whole, and written by nobody."""

from dataclasses import replace
from pathlib import Path

import lance
import pytest

from lance_gateway.memwal.base.index_details import RegionSpec, read_index_details, replace_details
from lance_gateway.memwal.base.versions import commit_next
from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.memwal.regions.manifest import list_regions
from lance_gateway.memwal.storage.files import Storage
from tests.support.processes.gateways import EngineGateway


def test_they_are_read_and_cloned_and_take_no_writes(tmp_path: Path):
    gateway = EngineGateway(tmp_path)
    gateway.write("CREATE TABLE t (id BIGINT PRIMARY KEY, v BIGINT) WITH (region_by = 'bucket(id, 2)')")
    gateway.write("INSERT INTO t SELECT value, value FROM range(0, 20)")
    gateway.flush("t")
    gateway.write("UPDATE t SET v = 100 WHERE id = 7")
    gateway.flush("t")
    path = tmp_path / "t.lance"
    storage, version = Storage.open(str(path)), lance.dataset(path).version
    details = read_index_details(storage, version)
    assert details is not None
    (spec,) = details.region_specs
    (field,) = spec.fields
    newer = RegionSpec(2, (replace(field, parameters={"num_buckets": "3"}),))
    both = replace(details, region_specs=(spec, newer))
    assert commit_next(storage, version, replace_details(storage, version, both.encode()))

    assert len(lance.dataset(path).mem_wal_index_details()["sharding_specs"]) == 2
    with pytest.raises(OSError, match="requires at most one sharding spec, found 2"):
        lance.dataset(path).mem_wal_writer(list_regions(storage)[0])
    for sql in ("INSERT INTO t VALUES (20, 20)", "DELETE FROM t WHERE id = 1"):
        with pytest.raises(UnsupportedError, match=r"several region specs \(1, 2\).* CLONE t WITH"):
            gateway.write(sql)
    assert gateway.read("SELECT v FROM t WHERE id = 7").to_pylist() == [{"v": 100}]
    gateway.write("CREATE TABLE u CLONE t WITH (region_by = 'bucket(id, 4)')")
    gateway.write("DELETE FROM u WHERE id = 1")
    for name, rows in (("t", 20), ("u", 19)):
        assert gateway.read(f"SELECT count(*) AS n FROM {name}").to_pylist() == [{"n": rows}]
    gateway.close()
