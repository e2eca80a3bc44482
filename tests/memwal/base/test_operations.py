"""The operations that made versions, read while others read by the same dataset."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lance
import pyarrow as pa

from lance_gateway.memwal.base.versions import read_operation_name

ROWS = pa.table({"id": list(range(1000))})


def test_threads_that_share_a_dataset_read_operation_names_and_rows(tmp_path: Path) -> None:
    lance.write_dataset(ROWS, tmp_path / "t.lance")
    dataset = lance.write_dataset(ROWS, tmp_path / "t.lance", mode="append")

    def read(number: int) -> object:
        if number % 2:
            return dataset.scanner(columns=["id"]).to_table().num_rows
        return read_operation_name(dataset, 1 + number // 2 % 2)

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(read, range(800)))
    assert set(found[1::2]) == {2 * ROWS.num_rows}
    assert found[0::4] == ["Overwrite"] * 200
    assert found[2::4] == ["Append"] * 200


def test_what_is_not_recorded_has_no_operation(tmp_path: Path) -> None:
    dataset = lance.write_dataset(ROWS, tmp_path / "t.lance")
    assert read_operation_name(dataset, 7) is None
