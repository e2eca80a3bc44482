"""Tables on S3 whose commits a DynamoDB table decides about: written, read, and kept healthy."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import boto3
import lance
import pytest

from lance_gateway.memwal.base.index_details import read_index_details
from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.memwal.storage.files import Storage, base_manifest_paths
from lance_gateway.pipeline.jobs.lake import Lake, TableState
from lance_gateway.pipeline.merging import merge
from lance_gateway.pipeline.snapshotting import SnapshotPolicy, snapshot
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.support.processes.gateways import EAGER, EngineGateway

pytestmark = pytest.mark.slow
Location = tuple[str, dict[str, str]]


@pytest.fixture
def gateway(commits_location: Location) -> Iterator[EngineGateway]:
    root, options = commits_location
    Storage.open(root, options).put("made", b"")
    gateway = EngineGateway(Catalog.open(root, options, writing=EAGER))
    gateway.write("CREATE TABLE t (id BIGINT PRIMARY KEY, v VARCHAR) WITH (region_by = 'bucket(id, 2)')")
    yield gateway
    gateway.close()


def rows(gateway: EngineGateway) -> dict[int, str]:
    found = gateway.read("SELECT id, v FROM t")
    return dict(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True))


def test_rows_are_written_merged_and_read(commits_location: Location, gateway: EngineGateway):
    gateway.write("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')")
    gateway.flush("t")
    gateway.write("DELETE FROM t WHERE id = 2")
    gateway.write("UPDATE t SET v = 'new' WHERE id = 3")
    expected = {1: "a", 3: "new", 4: "d"}
    assert rows(gateway) == expected
    lake = Lake.open(*commits_location)
    assert lake.table_names() == ("t",)
    table = lake.table("t")
    merge(table)
    assert rows(gateway) == expected
    gateway.flush("t")
    merge(table)
    assert rows(gateway) == expected
    state = TableState.read(table)
    assert not any(one.pending for one in state.regions.values())
    base = lance.dataset(table.uri, storage_options=dict(table.options)).to_table()
    assert dict(zip(base["id"].to_pylist(), base["v"].to_pylist(), strict=True)) == expected


@pytest.mark.soak
def test_a_version_that_is_decided_on_but_not_renamed_is_found(
    commits_location: Location, gateway: EngineGateway
):
    """Who commits may die between DynamoDB's word and the manifest's own name."""
    gateway.write("INSERT INTO t VALUES (1, 'a')")
    gateway.flush("t")
    table = Lake.open(*commits_location).table("t")
    merge(table)
    version = table.dataset().version
    (path, _) = base_manifest_paths(version)
    _leave_staged(table.storage, version, path)
    details = read_index_details(table.storage, version)
    assert details is not None
    assert set(details.merged_generations.values()) == {1}
    _leave_staged(table.storage, version, path)
    assert rows(gateway) == {1: "a"}
    gateway.write("INSERT INTO t VALUES (2, 'b')")
    assert rows(gateway) == {1: "a", 2: "b"}


def test_dropping_is_refused_with_the_reason(gateway: EngineGateway):
    gateway.write("INSERT INTO t VALUES (1, 'a')")
    with pytest.raises(UnsupportedError, match="leaves its versions in the DynamoDB table"):
        gateway.write("DROP TABLE t")
    assert rows(gateway) == {1: "a"}


def test_replacing_and_snapshots_are_refused_with_the_way_out(
    commits_location: Location, gateway: EngineGateway
):
    gateway.write("INSERT INTO t VALUES (1, 'a')")
    with pytest.raises(UnsupportedError, match="Delete the items whose base_uri is"):
        gateway.write("CREATE OR REPLACE TABLE t (id BIGINT PRIMARY KEY, v VARCHAR)")
    assert rows(gateway) == {1: "a"}
    gateway.flush("t")
    with pytest.raises(UnsupportedError, match="Keep the table under s3://"):
        snapshot(Lake.open(*commits_location).table("t"), SnapshotPolicy(0))
    assert rows(gateway) == {1: "a"}
    gateway.write("INSERT INTO t VALUES (2, 'b')")
    assert rows(gateway) == {1: "a", 2: "b"}


def _leave_staged(storage: Storage, version: int, path: str) -> None:
    """Take a committed manifest back to where it was between the two steps of its commit."""
    staged = f"{path}-0f6b2c1e"
    storage.put(staged, storage.read(path))
    storage.delete(path)
    options = storage.options
    items = boto3.resource(
        "dynamodb",
        endpoint_url=options["dynamodb_endpoint"],
        aws_access_key_id=options["aws_access_key_id"],
        aws_secret_access_key=options["aws_secret_access_key"],
        region_name=options["aws_region"],
    ).Table("commits")
    key = urlsplit(storage.files_uri).path.lstrip("/")
    items.update_item(
        Key={"base_uri": key, "version": version},
        UpdateExpression="SET #p = :staged",
        ExpressionAttributeNames={"#p": "path"},
        ExpressionAttributeValues={":staged": f"{key}/{staged}"},
    )
