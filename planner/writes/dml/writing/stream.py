"""Many rows, written in parts as they come: one part is written while the next one is read and checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa

from memwal.errors import LanceGatewayError
from memwal.writing import PartlyWrittenError, WriteReceipt
from planner.bridge.run_control import RunControl
from planner.writes.dml.statement.splice import retold

__all__ = ["PART_BYTES", "PART_ROWS", "in_parts", "write_parts"]

PART_ROWS = 65_536
PART_BYTES = 32 << 20
_SHOWN_REGIONS = 8

Write = Callable[[pa.Table], WriteReceipt]


def in_parts(
    tables: Iterable[pa.Table], rows: int | None = None, nbytes: int | None = None
) -> Iterator[pa.Table]:
    """Tables of one schema as fewer and larger ones, within limits; larger ones are cut."""
    rows, nbytes = rows or PART_ROWS, nbytes or PART_BYTES
    held: list[pa.Table] = []
    held_rows = held_bytes = 0
    for table in tables:
        if held and (held_rows + table.num_rows > rows or held_bytes + table.nbytes > nbytes):
            yield pa.concat_tables(held)
            held, held_rows, held_bytes = [], 0, 0
        pieces = max(-(-table.num_rows // rows), -(-table.nbytes // nbytes)) or 1
        size = max(-(-table.num_rows // pieces), 1)
        while table.num_rows > size:
            yield table.slice(0, size)
            table = table.slice(size)  # noqa: PLW2901 - the rest of it
        if table.num_rows:
            held.append(table)
            held_rows += table.num_rows
            held_bytes += table.nbytes
    if held:
        yield pa.concat_tables(held)


def write_parts(write: Write, parts: Iterator[pa.Table], control: RunControl) -> WriteReceipt:
    """Write parts one after another.

    Args:
        write: writes one part, whole in each region.
        parts: checked rows.
        control: stops between two parts.

    Raises:
        LanceGatewayError: what went wrong; it says what had been written before, if anything.
    """
    first = next(parts, None)
    if first is None:
        return WriteReceipt()
    second = next(parts, None)
    control.check()
    if second is None:
        return write(first)
    written = _Written()
    with ThreadPoolExecutor(1, thread_name_prefix="write") as pool:
        pending: Future[WriteReceipt] | None = pool.submit(write, first)
        part: pa.Table | None = second
        try:
            while part is not None:
                control.check()
                assert pending is not None  # noqa: S101 - one is always under way here
                done, pending = pending, None
                written.add(done.result())
                pending = pool.submit(write, part)
                part = next(parts, None)
            if pending is not None:
                written.add(pending.result())
        except BaseException as error:
            if pending is not None and pending.done() and pending.exception() is error:
                pending = None
            if pending is not None:
                try:
                    written.add(pending.result())
                except LanceGatewayError as later:
                    # The rows that were on their way have met a trouble of their own.
                    raise written.told(later) from error
            if isinstance(error, LanceGatewayError):
                raise written.told(error) from error
            raise
    return written.receipt


class _Written:
    """What was acknowledged so far."""

    def __init__(self) -> None:
        self._regions: dict[str, int] = {}
        self._is_durable = True

    @property
    def receipt(self) -> WriteReceipt:
        """Of all parts together."""
        return WriteReceipt(self._regions, self._is_durable)

    def add(self, receipt: WriteReceipt) -> None:
        """One more part."""
        for region_id, rows in receipt.regions.items():
            self._regions[region_id] = self._regions.get(region_id, 0) + rows
        self._is_durable = self._is_durable and receipt.is_durable

    def told(self, error: LanceGatewayError) -> LanceGatewayError:
        """The error, with what was written before it."""
        if not self._regions:
            return error
        rows = self.receipt.num_rows
        shown = [f"{region_id[:8]}: {count}" for region_id, count in self._regions.items()]
        listed = ", ".join(shown[:_SHOWN_REGIONS]) + (", .." if len(shown) > _SHOWN_REGIONS else "")
        msg = f"{error}; {rows} rows had been written before that (by region: {listed}), and stay"
        if isinstance(error, PartlyWrittenError):
            self.add(error.receipt)
            return PartlyWrittenError(msg, self.receipt)
        return retold(error, msg)
