"""Executors that read base table, generations and log tails by themselves, with the planner's own nodes.

The gateway pins the snapshot and divides it; its tickets say everything about a part. Each Python worker
of an executor has one engine for each root, which keeps what it has found out about a snapshot for the parts
that follow.
"""

import os
from collections.abc import Iterator
from functools import lru_cache
from importlib.metadata import version
from typing import cast

import pyarrow as pa
from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.message import DecodeError

from lance_gateway.memwal.errors import InvalidInputError, PreconditionError
from lance_gateway.pipeline.source.options import Options
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.plans.scan_parts import ScanPart
from lance_gateway.planner.scans.settings import SessionSettings, exclude_shortcuts
from lance_gateway.planner.tables.sources.snapshot import Consistency
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.protos import gateway_pb2 as own

_PACKAGE = "lance-gateway"
_ENGINES = 4


def rows_of(ticket: bytes, planned_by: str, options: Options) -> Iterator[pa.RecordBatch]:
    """The rows of one part, read from where they are stored.

    Args:
        ticket: of an endpoint, as the gateway gave it.
        planned_by: version of the gateway.
        options: root and storage.

    Raises:
        PreconditionError: this process has another version than the gateway.
        UnavailableError: the snapshot is no longer there.
        NotFoundError: the root is not there, for this process.
    """
    check_version(planned_by)
    part = _part(ticket)
    engine = _engine(
        options.root or "", tuple(sorted(options.storage.items())), options.cache_bytes, os.getpid()
    )
    query = engine.prepare(part.query, _settings(part.settings), promised=part.schema_digest)
    yield from query.execute_part(ScanPart.from_message(part.part))


def check_version(gateway: str, here: str | None = None) -> None:
    """Make sure that gateway and executor divide and read a snapshot in the same way.

    Args:
        gateway: its version.
        here: that of this process; looked up by default.

    Raises:
        PreconditionError: names both.
    """
    here = here or version(_PACKAGE)
    if gateway != here:
        raise PreconditionError(
            f"the gateway is {_PACKAGE} {gateway} and this executor has {here}, but in mode = 'direct' both "
            f"divide a snapshot: install {_PACKAGE}=={gateway} where executors run, or use mode = 'gateway'"
        )


@lru_cache(maxsize=_ENGINES)
def _engine(root: str, storage: tuple[tuple[str, str], ...], cache_bytes: int, _process: int) -> QueryEngine:
    """One for each root and process: threads don't survive a fork."""
    catalog = Catalog.open(root, dict(storage) or None, cache_bytes=cache_bytes, writing=None)
    return QueryEngine(catalog, partitions=1)


def _part(ticket: bytes) -> own.PartTicket:
    found = own.PartTicket()
    try:
        if Packed.FromString(ticket).Unpack(found):
            return found
    except DecodeError:
        pass
    raise InvalidInputError(
        "the ticket is not one of a part: mode = 'direct' needs a gateway that pins snapshots"
    )


def _settings(data: bytes) -> SessionSettings:
    """Read the settings that decide about the meaning of the statement."""
    message = own.SessionSettings.FromString(data)
    return SessionSettings(
        consistency=cast("Consistency", message.consistency),
        region_pruning=message.region_pruning,
        dialect=message.dialect,
        types="arrow",
        shortcuts=exclude_shortcuts(frozenset(message.shortcuts_off)),
    )
