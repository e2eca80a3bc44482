"""Tables with data files of chosen names and places, which Lance reads but does not write."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from lance import DatasetBasePath
from lance.file import LanceFileWriter
from lance.fragment import DataFile, FragmentMetadata

PART = "part-0.lance"
_FORMAT = (2, 1)


def write_fragment(
    directory: Path, rows: pa.Table, *, name: str = PART, base_id: int | None = None, ids: Sequence[int] = ()
) -> FragmentMetadata:
    """Write a data file and describe the fragment that consists of it.

    Args:
        directory: of the file.
        rows: of the fragment.
        name: of the file.
        base_id: of the base in which the directory lies; None for the table's own.
        ids: of the fields; by default as many as there are columns, from 0 on.
    """
    directory.mkdir(parents=True, exist_ok=True)
    major, minor = _FORMAT
    with LanceFileWriter(str(directory / name), rows.schema, version=f"{major}.{minor}") as writer:
        for batch in rows.to_batches():
            writer.write_batch(batch)
    columns = list(range(len(rows.schema)))
    size = (directory / name).stat().st_size
    file = DataFile(name, list(ids) or columns, columns, major, minor, size, base_id)
    return FragmentMetadata(0, [file], rows.num_rows)


def make_table(
    path: Path, rows: pa.Table, *, name: str = PART, bases: Sequence[DatasetBasePath] = ()
) -> lance.LanceDataset:
    """Return a table of one fragment with one file; in a directory that has one, its next version."""
    operation = lance.LanceOperation.Overwrite(
        rows.schema, [write_fragment(path / "data", rows, name=name)], list(bases) or None
    )
    return lance.LanceDataset.commit(path, operation)


def commit_fragments(path: Path, *fragments: FragmentMetadata) -> lance.LanceDataset:
    """Commit fragments on top of the newest version."""
    operation = lance.LanceOperation.Append(list(fragments))
    return lance.LanceDataset.commit(path, operation, read_version=lance.dataset(path).version)


def create_base_path(path: Path, base_id: int, *, is_dataset_root: bool = False) -> DatasetBasePath:
    """Return a base path of a table."""
    return DatasetBasePath(str(path), f"base{base_id}", is_dataset_root, base_id)


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return what plain Lance reads of a table, without any cache."""
    read: list[dict[str, Any]] = lance.dataset(path, session=lance.Session()).to_table().to_pylist()
    return read
