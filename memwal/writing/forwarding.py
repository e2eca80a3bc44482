"""Forward rows to the processes that own their regions."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor

from lance_gateway.memwal.errors import LanceGatewayError
from lance_gateway.memwal.writing.changes import Changes, FencedError, NotOwnerError, RegionOutcome
from lance_gateway.memwal.writing.options import UnreachableError, WriteOptions
from lance_gateway.memwal.writing.region.region_writer import RegionWriter
from lance_gateway.memwal.writing.table.open_table import OpenTable
from lance_gateway.memwal.writing.table.splitting import Part


def forward_changes(
    options: WriteOptions,
    table: OpenTable,
    parts: Mapping[str, Part],
    deadline: float,
    pool: Executor,
    region: Callable[[str], RegionWriter],
    write: Callable[[RegionWriter, Part], RegionOutcome],
) -> list[RegionOutcome]:
    """Send rows to the owners of their regions; this process may be one of them.

    Args:
        options: with a forwarder.
        table: whose columns the rows have.
        parts: rows and keys by region id.
        deadline: monotonic time.
        pool: for several regions at once.
        region: finds the writer of a region in this process.
        write: writes rows here, claiming the region if need be.
    """

    def write_part(region_id: str, part: Part) -> RegionOutcome:
        writer, changes = region(region_id), Changes(*part)
        while True:
            try:
                outcome = _send(options, writer, table, changes) or write(writer, part)
            except LanceGatewayError as error:
                outcome = RegionOutcome(region_id, changes.num_rows, error)
            # Another process owns it now, by the time that it was to be written: here, or there.
            if not isinstance(outcome.error, FencedError) or time.monotonic() > deadline:
                return outcome

    *remaining, last = parts.items()
    futures = [pool.submit(write_part, *part) for part in remaining]
    own = write_part(*last)
    return [*(future.result() for future in futures), own]


def flush_region(options: WriteOptions, writer: RegionWriter, table: OpenTable, deadline: float) -> int:
    """Flush a region where its owner is: in another process that can be reached, or else here.

    Args:
        options: with or without a forwarder.
        writer: of the region in this process.
        table: as it is open.
        deadline: monotonic time.

    Returns:
        How many rows were flushed.

    Raises:
        LanceGatewayError: it was not flushed; what was acknowledged is durable in the log.
    """
    while not writer.is_owned and options.forwarder is not None:
        owner = writer.ownership.find_other_owner(table)
        if owner is None:
            break
        try:
            return options.forwarder.flush(owner.url, writer.table_name, writer.region_id)
        except (UnreachableError, NotOwnerError):
            writer.ownership.gone_epoch = owner.epoch
    return writer.flush_log(deadline)


def _send(
    options: WriteOptions, writer: RegionWriter, table: OpenTable, changes: Changes
) -> RegionOutcome | None:
    """Return the owner's outcome; None if no other process owns the region and answers."""
    while not writer.is_owned and options.forwarder is not None:
        owner = writer.ownership.find_other_owner(table)
        writer.owner_url = "" if owner is None else owner.url
        if owner is None:
            break
        started = time.monotonic()
        try:
            receipt = options.forwarder.forward(owner.url, writer.table_name, writer.region_id, changes)
        except (UnreachableError, NotOwnerError):
            # A third process may own it by now; if not, this epoch is not asked again.
            writer.ownership.gone_epoch = owner.epoch
            continue
        writer.counters.forwards += 1
        seconds = time.monotonic() - started
        options.observer.on_forward(writer.table_name, writer.region_id, owner.url, receipt.num_rows, seconds)
        return RegionOutcome(writer.region_id, receipt.num_rows)
    return None
