"""Rows for a region that another process owns: sent there, or the region is claimed."""

from __future__ import annotations

import time
from collections.abc import Callable

from memwal.errors import LanceGatewayError
from memwal.writing.changes import Changes, FencedError, NotOwnerError
from memwal.writing.forwarding import UnreachableError
from memwal.writing.opened import OpenTable
from memwal.writing.options import WriteOptions
from memwal.writing.outcomes import RegionOutcome
from memwal.writing.region_writer import RegionWriter


def forwarded(
    options: WriteOptions,
    writer: RegionWriter,
    table: OpenTable,
    changes: Changes,
    deadline: float,
    write: Callable[[], RegionOutcome],
) -> RegionOutcome:
    """Have the owner of a region write changes, who may be this process.

    Args:
        options: with a forwarder.
        writer: of the region, in this process.
        table: whose columns the rows have.
        changes: of that region alone.
        deadline: monotonic time.
        write: writes them here, claiming the region if need be.
    """
    while True:
        try:
            outcome = _sent(options, writer, table, changes) or write()
        except LanceGatewayError as error:
            outcome = RegionOutcome(writer.region_id, changes.num_rows, error)
        # Another process owns it now, by the time that it was to be written: here, or there.
        if not isinstance(outcome.error, FencedError) or time.monotonic() > deadline:
            return outcome


def _sent(
    options: WriteOptions, writer: RegionWriter, table: OpenTable, changes: Changes
) -> RegionOutcome | None:
    """What the owner made of it; None where no other process owns the region that would answer."""
    while not writer.is_owned and options.forwarder is not None:
        owner = writer.ownership.other_owner(table)
        writer.note_owner("" if owner is None else owner.url)
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
