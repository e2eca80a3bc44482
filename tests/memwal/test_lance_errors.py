"""What the installed version of Lance says when it fails."""

import os
import subprocess
import sys
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal import lance_errors
from lance_gateway.memwal.errors import is_storage_failure
from lance_gateway.memwal.lance_errors import (
    is_absent,
    is_commit_conflict,
    is_contested_claim,
    is_damaged,
    is_invalid_input,
    is_log_too_long,
    is_out_of_memory,
    is_read_alone,
    is_replaced,
)
from tests.memwal.written import WrittenTable, keyed_schema

KINDS = (
    is_absent,
    is_commit_conflict,
    is_contested_claim,
    is_damaged,
    is_log_too_long,
    is_out_of_memory,
    is_replaced,
)
ROWS = pa.table({"id": pa.array(range(20), pa.int64())})


def failure_of(step: Callable[[], object]) -> Exception:
    with pytest.raises((OSError, ValueError, RuntimeError)) as failed:
        step()
    return failed.value


def find_kinds(error: BaseException) -> tuple[Callable[[BaseException], bool], ...]:
    return tuple(kind for kind in KINDS if kind(error))


@pytest.fixture
def table(tmp_path: Path) -> WrittenTable:
    return WrittenTable.create(
        str(tmp_path / "t.lance"), keyed_schema(pa.field("id", pa.int64())), unsharded=True
    )


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Of a dataset with one data file and one version, in a directory whose name says nothing."""
    path = tmp_path / "not found" / "x.lance"
    lance.write_dataset(ROWS, str(path))
    return path


def open_writer(table: WrittenTable, region: str, **options: Any) -> Any:
    return table.dataset.mem_wal_writer(
        region, max_wal_buffer_size=1, max_wal_flush_interval_ms=5_000, **options
    )


def test_what_is_not_there(place: Path, tmp_path: Path) -> None:
    dataset = lance.dataset(str(place))
    steps = (
        lambda: lance.dataset(str(tmp_path / "none.lance")),
        lambda: lance.dataset(str(place), version=9),
        lambda: lance.dataset(str(place), version="nosuchtag"),
        lambda: dataset.checkout_version(9),
    )
    assert [find_kinds(failure_of(step)) for step in steps] == [(is_absent,)] * 4
    (file,) = (place / "data").iterdir()
    file.unlink()
    assert [is_absent(failure_of(step)) for step in (dataset.to_table, lambda: dataset.take([1]))] == [
        True,
        True,
    ]


@pytest.mark.parametrize("length", [0, 10])
@pytest.mark.parametrize("directory", ["data", "_versions"])
def test_files_that_are_cut(place: Path, directory: str, length: int) -> None:
    (file,) = (path for path in (place / directory).iterdir() if path.suffix in {".lance", ".manifest"})
    file.write_bytes(file.read_bytes()[:length])
    error = failure_of(lambda: lance.dataset(str(place)).to_table())
    assert (is_damaged(error), is_absent(error)) == (True, False)


def test_commits_that_come_second(place: Path) -> None:
    former = lance.dataset(str(place))
    fragments = [fragment.metadata for fragment in former.get_fragments()]

    def merge(dataset: Any) -> None:
        job = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        job.conflict_retries(0).execute(ROWS)

    lance.write_dataset(ROWS, str(place), mode="overwrite")
    append = lance.LanceOperation.Append(fragments)
    overwrite = lance.LanceOperation.Overwrite(ROWS.schema, fragments)
    steps = (
        lambda: former.checkout_version(1).delete("id = 3"),
        lambda: lance.LanceDataset.commit(str(place), append, read_version=1),
        lambda: lance.LanceDataset.commit(str(place), overwrite, read_version=1),
    )
    found = [find_kinds(failure_of(step)) for step in steps]
    newest = lance.dataset(str(place))
    merge(lance.dataset(str(place)))
    found.append(find_kinds(failure_of(lambda: merge(newest))))
    assert [is_replaced in kinds for kinds in found] == [True, True, False, False]
    assert [is_commit_conflict in kinds for kinds in found] == [False, False, True, True]
    assert not any({is_absent, is_damaged} & set(kinds) for kinds in found)


def test_a_region_that_several_writers_claim_at_once(table: WrittenTable) -> None:
    region = str(uuid.uuid4())

    def claim(_: int) -> Any:
        try:
            return open_writer(table, region)
        except OSError as error:
            return error

    with ThreadPoolExecutor(8) as pool:
        claimed = list(pool.map(claim, range(24)))
    errors = [one for one in claimed if isinstance(one, Exception)]
    assert errors
    assert all(map(is_contested_claim, errors))


def test_a_log_that_is_longer_than_a_memtable(table: WrittenTable) -> None:
    region = str(uuid.uuid4())
    writer = open_writer(table, region)
    for key in range(20):
        writer.put(table.rows(id=[key], qty=[1]))
    assert find_kinds(failure_of(lambda: open_writer(table, region, max_memtable_rows=5))) == (
        is_log_too_long,
    )


def test_rows_that_do_not_fit(table: WrittenTable) -> None:
    writer = open_writer(table, str(uuid.uuid4()))
    error = failure_of(lambda: writer.put(pa.table({"peer claimed epoch": [1]})))
    assert is_invalid_input(error)


def test_a_column_that_is_not_read_together_with_others(tmp_path: Path) -> None:
    pairs = pa.array([[{"a": 1}, {"a": 2}]], pa.list_(pa.struct({"a": pa.int64()}), 2))
    dataset = lance.write_dataset(pa.table({"id": [1], "pairs": pairs}), str(tmp_path / "t.lance"))
    error = failure_of(dataset.to_table)
    assert is_read_alone(error)
    assert dataset.to_table(columns=["pairs"]).column("pairs").to_pylist() == pairs.to_pylist()


def test_a_plan_without_memory(place: Path) -> None:
    # Lance reads the size of the pool once in a process.
    script = (
        "import sys, lance, pyarrow as pa\n"
        "from lance_gateway.memwal.lance_errors import is_out_of_memory\n"
        "rows = pa.table({'s': [str(i) * 5 for i in range(100_000)]})\n"
        "dataset = lance.write_dataset(rows, sys.argv[1], mode='overwrite')\n"
        "try:\n"
        "    dataset.create_scalar_index('s', 'BTREE')\n"
        "except OSError as error:\n"
        "    assert is_out_of_memory(error), error\n"
        "    print('refused')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(place)],
        env={**os.environ, "LANCE_MEM_POOL_SIZE": "2000"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "refused\n", done.stderr


@pytest.mark.parametrize(
    ("uri", "options"),
    [
        (
            "s3://b/x.lance",
            {"aws_endpoint": "http://127.0.0.1:1", "aws_access_key_id": "x", "aws_secret_access_key": "y"},
        ),
        (
            "az://b/x.lance",
            {
                "azure_storage_account_name": "a",
                "azure_storage_account_key": "eA==",
                "azure_storage_endpoint": "http://127.0.0.1:1",
            },
        ),
        (
            "gs://b/x.lance",
            {
                "google_service_account_key": '{"gcs_base_url": "http://127.0.0.1:1", "disable_oauth": true, '
                '"client_email": "", "private_key": "", "private_key_id": ""}'
            },
        ),
    ],
    ids=["s3", "az", "gs"],
)
@pytest.mark.slow
@pytest.mark.soak
def test_a_store_that_does_not_answer(uri: str, options: dict[str, str]) -> None:
    limits = {"allow_http": "true", "client_max_retries": "0", "client_retry_timeout": "1"}
    error = failure_of(lambda: lance.dataset(uri, storage_options=options | limits))
    assert (is_storage_failure(error), is_absent(error)) == (True, False)


def test_every_question_is_asked_here() -> None:
    asked = {name for name in vars(lance_errors) if name.startswith("is_")}
    assert asked == {kind.__name__ for kind in (*KINDS, is_invalid_input, is_read_alone)}
