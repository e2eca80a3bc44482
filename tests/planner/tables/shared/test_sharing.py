"""Catalogs that share a directory, as processes do: one reads what another has kept, and nothing else."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute
import pytest

from lance_gateway.execnodes.rows.row_mask import CHUNK_ROWS, RowMask
from lance_gateway.execnodes.storage.source import LanceSource
from lance_gateway.planner.access.rights import TableAccess
from lance_gateway.planner.engine import QueryEngine, SessionSettings
from lance_gateway.planner.scans.settings import NO_SHORTCUTS
from lance_gateway.planner.tables.shared import cache
from lance_gateway.planner.tables.shared.cache import SharedCache
from lance_gateway.planner.tables.shared.files import SharedFiles
from lance_gateway.planner.tables.shared.names import FileStamp
from lance_gateway.planner.tables.sources.decoded_columns import DecodedColumns
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.support.judging.principals import create_principal
from tests.support.judging.results import rows_of
from tests.support.lake.hand_made import make_table
from tests.support.lake.merging import merge_generations
from tests.support.lake.tables import LsmTable, bucketed, key_field
from tests.support.processes.writer_process import WriterProcess

ROWS = 150_000
SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("v", pa.int64()), pa.field("s", pa.string())])
TOTALS = "SELECT count(*), sum(id), sum(v), min(s), max(s) FROM t"
BUDGET = 64 << 20
Open = Callable[..., QueryEngine]


def rows(shift: int = 0, count: int = ROWS) -> pa.Table:
    ids = np.arange(count)
    texts = pa.array([f"{shift} {number % 1000:03}" for number in range(count)])
    return pa.table({"id": ids, "v": ids * 3 + shift, "s": texts}, schema=SCHEMA)


def totals(table: pa.Table) -> list[tuple[Any, ...]]:
    ids, values = table["id"].to_numpy(), table["v"].to_numpy()
    texts = table["s"].to_pylist()
    return [(len(ids), int(ids.sum()), int(values.sum()), min(texts), max(texts))]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "shared"


@pytest.fixture
def open_sharing(place: Path) -> Iterator[Open]:
    """Opens engines, each with caches of its own, that share a directory."""
    with ExitStack() as stack:

        def open_root(root: Path, budget: int = BUDGET) -> QueryEngine:
            shared = SharedCache(SharedFiles(place, budget))
            engine = QueryEngine(Catalog.open(str(root), cache_bytes=32 << 20, shared=shared))
            stack.callback(engine.close)
            return engine

        yield open_root


def ask(engine: QueryEngine, sql: str = TOTALS, times: int = 1) -> list[tuple[Any, ...]]:
    answers = []
    for _ in range(times):
        answers.append(rows_of(engine.execute(sql).read_all()))
        engine.catalog.shared.await_stored()
    assert all(one == answers[0] for one in answers)
    return answers[0]


def files_of(engine: QueryEngine) -> SharedFiles:
    assert engine.catalog.shared.files is not None
    return engine.catalog.shared.files


def await_age(root: Path) -> None:
    """Wait until the files of a root are old enough to have names."""
    for file in root.rglob("*"):
        while file.is_file() and FileStamp.of(str(file)) is None:
            pass


def warm(engine: QueryEngine, root: Path, sql: str = TOTALS) -> list[tuple[Any, ...]]:
    """Ask as often as it takes until everything is kept."""
    await_age(root)
    answer = ask(engine, sql, times=4)
    assert files_of(engine).list_names()
    return answer


def check_warm(engine: QueryEngine, sql: str = TOTALS, *, masked: int = 0) -> list[tuple[Any, ...]]:
    """Ask for the first time; everything that a file may have comes from files, but for masked chunks."""
    files = files_of(engine)
    names = files.list_names()
    answer = ask(engine, sql)
    assert files.hits > 0
    assert (files.misses, files.damaged) == (masked, 0)
    assert files.list_names() == names
    return answer


def test_what_one_has_read_another_finds(root: Path, open_sharing: Open) -> None:
    lance.write_dataset(rows(), root / "t.lance", max_rows_per_file=80_000)
    assert warm(open_sharing(root), root) == totals(rows())
    assert check_warm(open_sharing(root)) == totals(rows())


def test_columns_lie_in_memory_once(root: Path, open_sharing: Open) -> None:
    lance.write_dataset(rows(), root / "t.lance")
    engines = [open_sharing(root) for _ in range(2)]
    for engine in engines:
        warm(engine, root)
        columns = engine.catalog.caches["columns"]
        assert columns.nbytes < 1 << 18, "entries, and what is too small for files"
    assert files_of(engines[0]).read_totals().nbytes >= ROWS * 2 * 8


def test_a_column_of_small_generations_lies_in_one_file(
    root: Path, open_sharing: Open, writers: WriterProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = LsmTable.create(root, "t", rows(count=100), bucketed("id", 1, recorded=True), writers)
    newest = {}
    for step in range(6):
        written = {key: {"id": key, "v": step, "s": f"{step} ü"} for key in range(step, 900 + step)}
        table.put(list(written.values()))
        table.delete([{"id": 3 * step}])
        table.close_writers()
        newest |= written
        newest.pop(3 * step)
    expected = totals(pa.Table.from_pylist(list(newest.values()), schema=SCHEMA))
    await_age(root)
    engine = open_sharing(root)
    assert ask(engine) == expected
    # What there is of one generation is too small for a file.
    assert len(files_of(engine).list_names()) == 3
    again = open_sharing(root)
    decoded: list[str] = []
    decode = DecodedColumns._decode_chunks

    def record(self: DecodedColumns, source: LanceSource, *rest: Any) -> Any:
        decoded.append(source.label)
        return decode(self, source, *rest)

    monkeypatch.setattr(DecodedColumns, "_decode_chunks", record)
    assert ask(again) == expected
    assert files_of(again).hits == 3
    # The base table is small, too, and there is but one of it.
    assert {label.split()[1] for label in decoded} == {"base"}


def test_what_does_not_wait_is_written_at_once(
    root: Path, open_sharing: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_WAITING_BYTES", 0)
    lance.write_dataset(rows(), root / "t.lance", max_rows_per_file=80_000)
    assert warm(open_sharing(root), root) == totals(rows())
    assert check_warm(open_sharing(root)) == totals(rows())


def test_rows_that_a_mask_shows_are_in_no_file_while_it_changes(
    root: Path, open_sharing: Open, writers: WriterProcess
) -> None:
    table = LsmTable.create(root, "t", rows(), bucketed("id", 1, recorded=True), writers)
    table.put([{"id": 0, "v": 0, "s": "fresh"}])
    engine = open_sharing(root)
    warm(engine, root)
    before = files_of(engine).read_totals().nbytes
    for step in range(1, 4):
        table.put([{"id": step * 40_000, "v": step, "s": "fresh"}])
        ask(engine, times=3)
    assert files_of(engine).read_totals().nbytes - before < CHUNK_ROWS * 8


@pytest.mark.soak
def test_masks_and_keys_are_found_too(root: Path, open_sharing: Open, writers: WriterProcess) -> None:
    table = LsmTable.create(root, "t", rows(), bucketed("id", 2, recorded=True), writers)
    for step in (1, 2):
        table.put([{"id": key, "v": step, "s": f"fresh {step}"} for key in range(step, 40_000, 2 * step)])
        table.delete([{"id": key} for key in range(100_000, 100_000 + 10 * step)])
        table.close_writers()
    expected = {int(row["id"]): row for row in rows().to_pylist()}
    for step in (1, 2):
        expected |= {
            key: {"id": key, "v": step, "s": f"fresh {step}"} for key in range(step, 40_000, 2 * step)
        }
        for key in range(100_000, 100_000 + 10 * step):
            expected.pop(key, None)
    shown = totals(pa.Table.from_pylist(list(expected.values()), schema=SCHEMA))
    private = QueryEngine(Catalog.open(str(root)))
    assert ask(private) == shown
    private.close()
    assert warm(open_sharing(root), root) == shown
    restarted = open_sharing(root)
    assert check_warm(restarted, masked=6) == shown
    # What comes on top of what was found is right as well.
    table.put([{"id": key, "v": 9, "s": "fresh 9"} for key in (1, 5, 120_000)])
    expected |= {key: {"id": key, "v": 9, "s": "fresh 9"} for key in (1, 5, 120_000)}
    shown = totals(pa.Table.from_pylist(list(expected.values()), schema=SCHEMA))
    for engine in (restarted, open_sharing(root)):
        assert ask(engine, times=3) == shown
    table.close_writers()
    for engine in (restarted, open_sharing(root)):
        assert ask(engine, times=3) == shown
    for region in table.regions.values():
        merge_generations(table.path, region, 1)
    for engine in (restarted, open_sharing(root)):
        assert ask(engine, times=3) == shown


def test_deletions_are_those_of_the_version(root: Path, open_sharing: Open) -> None:
    path = root / "t.lance"
    lance.write_dataset(rows(), path)
    engine = open_sharing(root)
    warm(engine, root)
    for condition in ("id < 1000", "id > 140000"):
        lance.dataset(path).delete(condition)
        left = lance.dataset(path).to_table()
        assert ask(engine, times=3) == totals(left)
        assert ask(open_sharing(root), times=3) == totals(left)


class TestAnotherTable:
    """A table in the place of another one shows its own rows, whatever it has in common with the other."""

    def test_made_anew_with_files_of_the_same_names(self, root: Path, open_sharing: Open) -> None:
        path = root / "t.lance"
        engine = open_sharing(root)
        for shift in range(3):
            shutil.rmtree(path, ignore_errors=True)
            make_table(path, rows(shift))
            # The engine that runs on, while the files are new, and one that has just started.
            assert ask(engine, times=3) == totals(rows(shift))
            assert warm(open_sharing(root), root) == totals(rows(shift))
            assert check_warm(open_sharing(root)) == totals(rows(shift))
            assert ask(engine, times=3) == totals(rows(shift))

    def test_moved_away_and_back(self, root: Path, open_sharing: Open) -> None:
        path, away = root / "t.lance", root / "away"
        engine = open_sharing(root)
        make_table(path, rows(1))
        warm(engine, root)
        for shift in (2, 1, 2, 1):
            path.rename(root / "moving")
            if away.exists():
                away.rename(path)
            else:
                make_table(path, rows(2))
            (root / "moving").rename(away)
            for one in (engine, open_sharing(root)):
                assert ask(one, times=3) == totals(rows(shift))

    def test_a_copy_of_which_a_file_was_replaced(
        self, root: Path, open_sharing: Open, tmp_path: Path
    ) -> None:
        make_table(root / "t.lance", rows(1))
        warm(open_sharing(root), root)
        other = tmp_path / "other"
        other.mkdir()
        shutil.copytree(root / "t.lance", other / "t.lance")  # with the times of its files
        make_table(tmp_path / "changed.lance", rows(2))
        (file,) = (other / "t.lance/data").iterdir()
        (changed,) = (tmp_path / "changed.lance/data").iterdir()
        times = file.stat()
        assert changed.stat().st_size == times.st_size
        file.write_bytes(changed.read_bytes())
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
        await_age(other)
        assert ask(open_sharing(other), times=3) == totals(rows(2))
        assert check_warm(open_sharing(root)) == totals(rows(1))
        assert check_warm(open_sharing(other)) == totals(rows(2))

    def test_nothing_is_kept_of_files_that_were_replaced_while_they_were_read(
        self, root: Path, open_sharing: Open, tmp_path: Path
    ) -> None:
        """The engine has named the rows of the old table; what it reads later gets none of these names."""
        path = root / "t.lance"
        make_table(path, rows(1))
        engine = open_sharing(root)
        await_age(root)
        table = engine.catalog.table("t")
        snapshot = table.take_snapshot(())
        source, columns = snapshot.base.source, table.columns

        def read() -> list[pa.RecordBatch]:
            return list(columns.read(source, [0], ["v"], RowMask())[0])

        read()  # names the rows; a large column is kept from its second reading on
        make_table(tmp_path / "new.lance", rows(2))
        shutil.rmtree(path)
        (tmp_path / "new.lance").rename(path)
        await_age(root)
        read()
        assert not files_of(engine).list_names()
        assert ask(open_sharing(root), times=3) == totals(rows(2))
        assert ask(engine, times=3) == totals(rows(2))

    def test_columns_that_swap_their_names(self, root: Path, open_sharing: Open) -> None:
        path = root / "t.lance"
        lance.write_dataset(pa.table({"a": np.arange(ROWS), "b": np.arange(ROWS) * 2}), path)
        warm(open_sharing(root), root, "SELECT sum(a), sum(b) FROM t")
        for old, new in (("a", "x"), ("b", "a"), ("x", "b")):
            lance.dataset(path).alter_columns({"path": old, "name": new})
        total = int(np.arange(ROWS).sum())
        assert ask(open_sharing(root), "SELECT sum(a), sum(b) FROM t", times=2) == [(2 * total, total)]


def test_damaged_files_change_no_answer(root: Path, place: Path, open_sharing: Open) -> None:
    lance.write_dataset(rows(), root / "t.lance")
    warm(open_sharing(root), root)
    damaged = [one for one in place.iterdir() if one.name != "state"]
    for number, one in enumerate(damaged):
        one.chmod(0o600)
        data = bytearray(one.read_bytes())
        data[len(data) * (number + 1) // (len(damaged) + 1)] ^= 1
        one.write_bytes(data)
    engine = open_sharing(root)
    assert ask(engine, times=3) == totals(rows())
    assert files_of(engine).damaged == len(damaged)
    assert check_warm(open_sharing(root)) == totals(rows())


def test_what_others_evict_leaves_the_caches(root: Path, place: Path, open_sharing: Open) -> None:
    lance.write_dataset(rows(), root / "t.lance")
    engine = open_sharing(root)
    warm(engine, root)
    shared, columns = engine.catalog.shared, engine.catalog.caches["columns"]
    held = columns.nbytes
    shared.look_after()
    assert columns.nbytes == held
    SharedFiles(place, 1).close()
    assert not files_of(engine).list_names()
    shared.look_after()
    assert columns.nbytes < held
    assert ask(engine, times=3) == totals(rows())


def test_what_is_used_stays(root: Path, place: Path, open_sharing: Open) -> None:
    lance.write_dataset(rows(), root / "t.lance")
    engine = open_sharing(root)
    warm(engine, root)
    shared = engine.catalog.shared
    shared.look_after()
    files = [one for one in place.iterdir() if one.name != "state"]
    for one in files:
        os.utime(one, ns=(1, 1))
    shared.look_after()
    assert all(one.stat().st_mtime_ns == 1 for one in files)  # nothing was used since
    ask(engine, "SELECT sum(v) FROM t")
    shared.look_after()
    used = {one for one in files if one.stat().st_mtime_ns > 1}
    assert 0 < len(used) < len(files)


def test_switched_off_shortcuts_use_no_file(root: Path, open_sharing: Open) -> None:
    lance.write_dataset(rows(), root / "t.lance")
    warm(open_sharing(root), root)
    engine = open_sharing(root)
    without = SessionSettings(shortcuts=NO_SHORTCUTS)
    assert rows_of(engine.execute(TOTALS, without).read_all()) == totals(rows())
    assert (files_of(engine).hits, files_of(engine).misses) == (0, 0)


def test_values_of_policies_lie_in_no_file(root: Path, place: Path, open_sharing: Open) -> None:
    lance.write_dataset(rows(), root / "t.lance")
    await_age(root)
    policy = create_principal(t=TableAccess(row_filter="v % 2 = 0", masks={"s": "'secret ' || s"}))
    engine = open_sharing(root)
    even = rows().filter(pa.compute.equal(pa.compute.bit_wise_and(rows()["v"], 1), 0))
    for _ in range(4):
        found = engine.prepare(TOTALS, access=policy).execute().read_all()
        (shown,) = rows_of(found)
        assert shown[:3] == totals(even)[0][:3]
        assert shown[3].startswith("secret ")
    assert not [one for one in place.iterdir() if b"secret" in one.read_bytes()]
    assert ask(open_sharing(root), times=3) == totals(rows())
