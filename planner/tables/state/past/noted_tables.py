"""Tables in a state that a token names: a base version, generations, and entries of logs.

    lance-changes:1:CgZvcmRlcnMQBRoQ...

A token is the description of a snapshot (`SnapshotDescription`) in base64, behind the number of its format.
Unlike a version or a moment it has the unflushed rows, so it names exactly what a query saw.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from google.protobuf.message import DecodeError

from lance_gateway.memwal.errors import InvalidInputError, PreconditionError
from lance_gateway.planner.predicates.pruning import RegionAssignment, RegionAssignments
from lance_gateway.planner.sql.text.as_of import TOKEN_START, AsOf, format_moment
from lance_gateway.planner.tables.sources.base_table import BaseTable
from lance_gateway.planner.tables.sources.decoded_columns import DecodedColumns
from lance_gateway.planner.tables.sources.snapshot import (
    Consistency,
    RegionSnapshot,
    SnapshotDescription,
    SnapshotGoneError,
    TableSnapshot,
)
from lance_gateway.planner.tables.state.past.past_table import PastTable
from lance_gateway.planner.tables.state.past.past_tables import PastTables
from lance_gateway.planner.tables.state.table import Table
from lance_gateway.protos import snapshot_pb2

_FORMAT = "1"


def write_token(snapshot: TableSnapshot) -> str:
    """Return the token of a snapshot, which must have all regions of its table.

    A state has one token, in whichever order its regions were read.
    """
    fresh = {
        region_id: region
        for region_id, region in sorted(snapshot.regions.items())
        if region.generations or region.tail is not None
    }
    described = SnapshotDescription.of(TableSnapshot(snapshot.base, fresh), frozenset())
    written = described.to_message().SerializeToString(deterministic=True)
    return f"{TOKEN_START}{_FORMAT}:{base64.urlsafe_b64encode(written).decode().rstrip('=')}"


def read_token(token: str, table: str) -> SnapshotDescription:
    """Read the token of a state of a table.

    Raises:
        InvalidInputError: it is not a token, of another format, or of another table.
    """
    number, _, encoded = token.removeprefix(TOKEN_START).partition(":")
    if number.isdecimal() and number != _FORMAT:
        msg = (
            f"the token {_shorten(token)!r} has format {number}, and this gateway reads format {_FORMAT}: "
            "begin again with a version or a time"
        )
        raise InvalidInputError(msg)
    try:
        if number != _FORMAT:
            raise InvalidInputError("it has no format")  # noqa: TRY301 - one error for all that is wrong
        padded = encoded + "=" * (-len(encoded) % 4)
        message = snapshot_pb2.SnapshotDescription.FromString(base64.b64decode(padded, b"-_", validate=True))
        described = SnapshotDescription.from_message(message)
    except (binascii.Error, ValueError, DecodeError, InvalidInputError) as error:
        msg = f"{_shorten(token)!r} is not a token of a state: pass the text of a column _position, unchanged"
        raise InvalidInputError(msg) from error
    if described.table != table:
        msg = f"the token {_shorten(token)!r} is of table {described.table!r}, and not of {table!r}"
        raise InvalidInputError(msg)
    return described


def _shorten(token: str) -> str:
    return token if len(token) <= 40 else f"{token[:37]}..."


class NotedTable(PastTable):
    """Table in the state that a token names, with its unflushed rows. Thread-safe.

    Args:
        newest: the table of today.
        snapshot: the state.
        columns: keeps decoded columns of past versions.
    """

    def __init__(self, newest: Table, snapshot: TableSnapshot, columns: DecodedColumns) -> None:
        super().__init__(newest, snapshot.base, 0, columns)
        self._snapshot = snapshot

    @property
    def described_time(self) -> str:
        """See `Table.described_time`."""
        return f"as of a token of version {self.version}"

    def assignments(self, base: BaseTable, consistency: Consistency) -> RegionAssignments:
        """Return the regions of the state that had fresh rows; see `Table.assignments`."""
        del consistency
        return RegionAssignments() if base.details is None else self._noted_assignments

    def take_snapshot(
        self, regions: Iterable[str], consistency: Consistency = "strong", max_staleness_ms: int = 0
    ) -> TableSnapshot:
        """Return some regions of the state; see `Table.take_snapshot`."""
        del consistency, max_staleness_ms
        known = self._snapshot.regions
        return TableSnapshot(
            self._snapshot.base, {one: known.get(one) or RegionSnapshot(one, (), None) for one in regions}
        )

    @cached_property
    def _noted_assignments(self) -> RegionAssignments:
        # The values of a region never change, so its newest manifest has them.
        known = {one.region_id: one for one in self.today.assignments(self.today.base(), "flushed").regions}
        none: Mapping[str, bytes] = {}
        return RegionAssignments(
            tuple(known.get(one) or RegionAssignment(one, 0, none) for one in self._snapshot.regions)
        )


@dataclass(frozen=True, slots=True)
class _NotedTableName:
    """Cache key of a noted table: the table of today, and the token."""

    newest: Table
    token: str


def find_state(past: PastTables, table: Table, as_of: AsOf) -> Table:
    """Open a table in a past state, of a token too.

    Args:
        past: opens versions and moments, and keeps what is open.
        table: of today.
        as_of: the state.

    Raises:
        NotFoundError: there is no such version, or tag, or the table did not exist.
        InvalidInputError: the token or the moment can't be read.
        PreconditionError: part of the state was cleaned up.
    """
    token = as_of.token
    if token is None:
        return past.find(table, as_of)
    described = read_token(token, table.name)

    def open_noted() -> NotedTable:
        try:
            return NotedTable(table, table.reopen(described), past.columns)
        except SnapshotGoneError as error:
            raise _build_gone_error(past, table, described, error) from error

    return past.keep(_NotedTableName(table, token), open_noted)


def _build_gone_error(
    past: PastTables, table: Table, described: SnapshotDescription, error: SnapshotGoneError
) -> PreconditionError:
    oldest = past.versions(table.base())[0]
    return PreconditionError(
        f"table {table.name!r}: the state of the token, on top of version {described.base_version}, was "
        f"cleaned up, or the table was recreated ({error}). The oldest version that is left is "
        f"{oldest.version}, of {format_moment(oldest.committed_at)}: begin again, since => {oldest.version}"
    )
