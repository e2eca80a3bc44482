"""What is kept of tables in a bucket is found by other processes, which do not read it again."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import UnavailableError
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.shared.cache import SharedCache
from lance_gateway.planner.tables.shared.files import SharedFiles
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.support.judging.results import rows_of
from tests.support.processes.servers import GatewayProcess, open_connection
from tests.support.stores.failing_s3 import FailingS3, failing_s3

pytestmark = pytest.mark.slow

ROWS = 100_000
FILES = 3 * 2
"""Two chunks of each of three columns."""
TOTALS = "SELECT count(*), sum(id), sum(v), max(s) FROM t"


@pytest.fixture(scope="module")
def store() -> Iterator[FailingS3]:
    with failing_s3("kept") as store:
        yield store


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """An empty root in the bucket."""
    return f"s3://kept/{tmp_path.name}"


@pytest.fixture
def open_sharing(store: FailingS3, uri: str, tmp_path: Path) -> Iterator[Callable[[], QueryEngine]]:
    """Opens engines over the root, each with caches of its own, that share a directory."""
    with ExitStack() as stack:

        def open_root() -> QueryEngine:
            shared = SharedCache(SharedFiles(tmp_path / "shared", 64 << 20))
            engine = QueryEngine(Catalog.open(uri, store.options, shared=shared))
            stack.callback(engine.close)
            return engine

        yield open_root


def write(store: FailingS3, uri: str, shift: int = 0) -> list[tuple[object, ...]]:
    """Write a table; return what `TOTALS` answers."""
    ids = np.arange(ROWS)
    rows = pa.table(
        {"id": ids, "v": ids * 3 + shift, "s": pa.array([f"{shift} {one % 99:02}" for one in ids])}
    )
    lance.write_dataset(rows, f"{uri}/t.lance", storage_options=store.options)
    return [(ROWS, int(ids.sum()), int(ids.sum()) * 3 + shift * ROWS, f"{shift} 98")]


def ask(engine: QueryEngine, times: int = 1) -> list[tuple[object, ...]]:
    answers = []
    for _ in range(times):
        answers.append(rows_of(engine.execute(TOTALS).read_all()))
        engine.catalog.shared.await_stored()
    assert all(one == answers[0] for one in answers)
    return answers[0]


def count_files(place: Path) -> int:
    """Count the files of chunks, keys and masks."""
    return sum(not one.name.startswith(("state", "note-")) for one in place.iterdir())


def list_reads(store: FailingS3) -> list[str]:
    """Return the data files that were read since the last `arm`."""
    return [path for method, path in store.requests if method == "GET" and "/data/" in path]


def test_what_one_has_read_another_does_not_read_again(
    store: FailingS3, uri: str, open_sharing: Callable[[], QueryEngine]
) -> None:
    expected = write(store, uri)
    store.arm(lambda *_: None)
    assert ask(open_sharing(), times=4) == expected
    assert list_reads(store)
    store.arm(lambda *_: None)
    assert ask(open_sharing()) == expected
    assert not list_reads(store)


def test_a_gateway_that_was_started_again_reads_nothing_again(
    store: FailingS3, uri: str, tmp_path: Path, serve: Callable[..., GatewayProcess]
) -> None:
    expected = write(store, uri)
    options = [word for pair in store.options.items() for word in ("--storage-option", "=".join(pair))]
    options += ["--set", f"cache.directory={tmp_path / 'shared'}"]
    reads = []
    for _ in range(2):
        store.arm(lambda *_: None)
        gateway = serve(uri, *options)
        with open_connection(gateway.uri) as connection, connection.cursor() as cursor:
            is_kept = False
            while not is_kept:
                cursor.execute(TOTALS)
                assert cursor.fetchall() == expected
                is_kept = count_files(tmp_path / "shared") >= FILES
        gateway.stop()
        reads.append(list_reads(store))
    assert reads[0]
    assert not reads[1]


def test_a_table_that_is_made_again_has_its_own_rows(
    store: FailingS3, uri: str, open_sharing: Callable[[], QueryEngine]
) -> None:
    write(store, uri)
    engine = open_sharing()
    ask(engine, times=4)
    engine.prepare_statement("DROP TABLE t").execute()
    expected = write(store, uri, shift=1)
    assert ask(engine, times=2) == expected
    assert ask(open_sharing(), times=2) == expected


def test_deleted_and_written_rows_are_told_from_those_before(
    store: FailingS3, uri: str, open_sharing: Callable[[], QueryEngine]
) -> None:
    expected = write(store, uri)
    assert ask(open_sharing(), times=4) == expected
    dataset = lance.dataset(f"{uri}/t.lance", storage_options=store.options)
    dataset.delete("id = 5")
    dataset.update({"v": "v + 1"}, where="id = 6")
    ((count, ids, values, text),) = expected
    assert isinstance(ids, int)
    assert isinstance(values, int)
    changed = [(ROWS - 1, ids - 5, values - 15 + 1, text)]
    assert count == ROWS
    for _ in range(2):
        assert ask(open_sharing(), times=4) == changed


def test_nothing_is_answered_that_the_store_refuses(
    store: FailingS3, uri: str, open_sharing: Callable[[], QueryEngine]
) -> None:
    write(store, uri)
    ask(open_sharing(), times=4)
    engine = open_sharing()
    store.arm(lambda *_: "refused")
    with pytest.raises(UnavailableError):
        ask(engine)
    store.disarm()
