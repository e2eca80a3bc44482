"""What Lance writes fails: the error is clear, nothing acknowledged is lost, and the gateway serves on."""

from collections.abc import Callable, Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import LanceGatewayError
from tests.faults.blocking import fill, immutable, in_the_way, small_disk
from tests.support.lake import manifests
from tests.support.lake.tables import key_field
from tests.support.processes.gateways import EngineGateway

SCHEMA = pa.schema([key_field("k", pa.int64()), pa.field("v", pa.string())])


def create(root: Path) -> Path:
    path = root / "t.lance"
    lance.write_dataset(SCHEMA.empty_table(), path).initialize_mem_wal()
    return path


def region_directory(table: Path) -> Path:
    (region,) = manifests.list_region_ids(table)
    return table / "_mem_wal" / region


def values(gateway: EngineGateway) -> dict[int, str]:
    rows = gateway.read("SELECT k, v FROM t")
    assert len(set(rows["k"].to_pylist())) == rows.num_rows
    return dict(zip(rows["k"].to_pylist(), rows["v"].to_pylist(), strict=True))


@pytest.fixture
def open_gateway() -> Iterator[Callable[[Path], EngineGateway]]:
    gateways: list[EngineGateway] = []

    def opened(root: Path) -> EngineGateway:
        gateways.append(EngineGateway(root))
        return gateways[-1]

    yield opened
    for gateway in gateways:
        gateway.close()


OpenGateway = Callable[[Path], EngineGateway]
BLOCKS = {"the log can't be reached": in_the_way, "the log can't be added to": immutable}


@pytest.mark.soak
@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
def test_an_insert_that_the_log_does_not_take(root: Path, open_gateway: OpenGateway, block: Callable):
    table = create(root)
    gateway = open_gateway(root)
    gateway.write("INSERT INTO t VALUES (1, 'before')")
    with block(region_directory(table) / "wal"):
        with pytest.raises(LanceGatewayError) as told:
            gateway.write("INSERT INTO t VALUES (1, 'lost'), (2, 'lost')")
        assert "Traceback" not in str(told.value)
    possible = [{1: "before"}, {1: "lost", 2: "lost"}]
    assert values(gateway) in possible
    assert gateway.write("INSERT INTO t VALUES (1, 'after'), (2, 'after')") == 2
    for one in (gateway, open_gateway(root)):
        assert values(one) == {1: "after", 2: "after"}


@pytest.mark.parametrize("block", [in_the_way, immutable])
def test_a_region_that_cannot_be_claimed(root: Path, open_gateway: OpenGateway, block: Callable):
    table = create(root)
    first, second = open_gateway(root), open_gateway(root)
    first.write("INSERT INTO t VALUES (1, 'before')")
    with block(region_directory(table) / "manifest"), pytest.raises(LanceGatewayError):
        second.write("INSERT INTO t VALUES (1, 'lost')")
    assert values(first) == values(second) == {1: "before"}
    second.write("INSERT INTO t VALUES (2, 'after')")
    first.write("INSERT INTO t VALUES (3, 'after')")
    assert values(first) == values(second) == {1: "before", 2: "after", 3: "after"}


def test_the_first_region_cannot_be_created(root: Path, open_gateway: OpenGateway):
    table = create(root)
    gateway = open_gateway(root)
    with in_the_way(table / "_mem_wal"), pytest.raises(LanceGatewayError):
        gateway.write("INSERT INTO t VALUES (1, 'lost')")
    assert values(gateway) == {}
    gateway.write("INSERT INTO t VALUES (1, 'after')")
    assert values(open_gateway(root)) == {1: "after"}


def test_a_flush_that_storage_does_not_take(root: Path, open_gateway: OpenGateway):
    table = create(root)
    gateway = open_gateway(root)
    for number in range(5):
        gateway.write(f"INSERT INTO t VALUES ({number}, 'before')")
    region = region_directory(table)
    with immutable(region), pytest.raises(LanceGatewayError):
        gateway.flush("t")
    assert values(gateway) == dict.fromkeys(range(5), "before")
    gateway.write("UPDATE t SET v = 'after' WHERE k < 3")
    gateway.flush("t")
    expected = dict.fromkeys(range(3), "after") | dict.fromkeys((3, 4), "before")
    assert values(gateway) == values(open_gateway(root)) == expected


def test_a_change_that_writes_and_deletes_while_the_log_takes_nothing(root: Path, open_gateway: OpenGateway):
    table = create(root)
    gateway = open_gateway(root)
    gateway.write("INSERT INTO t VALUES (1, 'before'), (2, 'before')")
    merge = (
        "MERGE INTO t USING (VALUES (1, 'x'), (2, 'x'), (3, 'x')) AS s (k, v) ON t.k = s.k "
        "WHEN MATCHED AND s.k = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v "
        "WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.v)"
    )
    with immutable(region_directory(table) / "wal"), pytest.raises(LanceGatewayError):
        gateway.write(merge)
    assert values(gateway) in ({1: "before", 2: "before"}, {2: "x", 3: "x"})
    gateway.write("INSERT INTO t VALUES (1, 'again'), (2, 'again')")
    assert gateway.write(merge) == 3
    assert values(gateway) == values(open_gateway(root)) == {2: "x", 3: "x"}


@pytest.mark.slow
@pytest.mark.soak
def test_a_full_disk(root: Path, open_gateway: OpenGateway):
    with small_disk(root, megabytes=6):
        create(root)
        gateway = open_gateway(root)
        gateway.write("INSERT INTO t VALUES (0, 'before')")
        filling = fill(root)
        text = "x" * 200_000
        with pytest.raises(LanceGatewayError):
            gateway.write(f"INSERT INTO t VALUES (1, '{text}')")
        assert values(gateway)[0] == "before"
        filling.unlink()
        acknowledged = values(gateway)
        gateway.write("INSERT INTO t VALUES (100, 'after')")
        assert values(gateway) == values(open_gateway(root)) == acknowledged | {100: "after"}
        gateway.close()


@pytest.mark.soak
def test_a_disk_that_fills_up_loses_nothing_it_acknowledged(root: Path, open_gateway: OpenGateway):
    """Rows until there is no room, then room again."""
    with small_disk(root, megabytes=6):
        create(root)
        reserve = root / "reserve"
        reserve.write_bytes(bytes(2 << 20))
        gateway = open_gateway(root)
        acknowledged, failed = {}, set()
        for number in range(40):
            value = f"{number}" * 60_000
            try:
                gateway.write(f"INSERT INTO t VALUES ({number}, '{value}')")
            except LanceGatewayError:
                failed.add(number)
            else:
                acknowledged[number] = value
        assert failed
        reserve.unlink()
        for one in (gateway, open_gateway(root)):
            found = values(one)
            assert {key: found.get(key) for key in acknowledged} == acknowledged
            assert set(found) <= set(acknowledged) | failed
        gateway.write("INSERT INTO t VALUES (1000, 'after')")
        assert values(gateway)[1000] == "after"
        gateway.close()
