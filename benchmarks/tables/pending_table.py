"""Tables whose generations wait to be merged: made once, and copied for each side of a measurement."""

import itertools
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.reports.answers import WrongAnswerError
from benchmarks.reports.timing import Samples, time_call
from benchmarks.tables.write_table import WriteShape, WriteTable, create_table
from lance_gateway.memwal.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class PendingTable:
    """A base table and generations on top of it.

    Attributes:
        table: where it is.
        newest: the newest row of every key that the generations have.
    """

    table: WriteTable
    newest: pa.Table

    @property
    def merged_rows(self) -> int:
        """Rows of the base table once all is merged."""
        keys = self.newest["id"].to_numpy()
        return self.table.shape.rows + int(np.count_nonzero(keys >= self.table.shape.rows))


def create_pending(root: Path, shape: WriteShape, rows: int, rounds: int) -> PendingTable:
    """Write a table, and a generation into each of its regions in every round.

    Keys are drawn for each round: half of them are in the base table, and rounds have some in common.

    Args:
        root: of the catalog.
        shape: of the base table.
        rows: of each round, over all regions together.
        rounds: how often.

    Raises:
        InvalidInputError: there is nothing to write.
    """
    if min(rows, rounds) < 1:
        raise InvalidInputError(f"{rounds} rounds of {rows} rows: at least one of each is needed")
    table = create_table(root, shape)
    random = np.random.default_rng(shape.rows)
    written = []
    for number in range(rounds):
        old = random.choice(shape.rows, min(rows // 2, shape.rows), replace=False)
        new = shape.rows + random.choice(2 * rows, rows - len(old), replace=False)
        batch = shape.rows_of(np.sort(np.concatenate([old, new])), seed=number + 1)
        written.append(batch)
        dataset = table.open()
        for region, part in zip(table.regions, table.split(batch), strict=True):
            if part.num_rows:
                with dataset.mem_wal_writer(region, max_memtable_rows=2 * rows) as writer:
                    writer.put(part)
    latest = pa.concat_tables(reversed(written))
    _, first = np.unique(latest["id"].to_numpy(), return_index=True)
    return PendingTable(table, latest.take(pa.array(first)).combine_chunks())


def interleave_copies(
    pending: PendingTable, sides: Mapping[str, Callable[[WriteTable], object]], rounds: int
) -> Samples:
    """Time what changes the table: each side has a copy of its own in every round, made beforehand.

    Args:
        pending: what is copied.
        sides: name to what is timed; all rows must be in the base table afterwards.
        rounds: timed rounds after one that is not. The order of the sides rotates.

    Raises:
        WrongAnswerError: a side left out rows, or has too many.
    """
    names, numbers = list(sides), itertools.count()
    seconds = {name: np.zeros(rounds) for name in names}
    for number in range(-1, rounds):
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            root = Path(f"{pending.table.root}-{next(numbers)}")
            shutil.copytree(pending.table.root, root)
            copy = replace(pending.table, root=str(root))
            elapsed = time_call(lambda name=name, copy=copy: sides[name](copy))  # type: ignore[misc]
            found = copy.open().count_rows()
            if found != pending.merged_rows:
                raise WrongAnswerError(f"{name} left {found} rows instead of {pending.merged_rows}")
            shutil.rmtree(root)
            if number >= 0:
                seconds[name][number] = elapsed
    return Samples(seconds)
