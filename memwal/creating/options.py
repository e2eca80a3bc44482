"""How the MemWAL of a table is set up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

UNSHARDED = "unsharded"


@dataclass(frozen=True, slots=True)
class MemWalOptions:
    """What is recorded in a new MemWAL index.

    Attributes:
        region_by: how rows map to regions; see `region_by`.
        maintained_indexes: indexes that flushed generations carry too; None for all of the table, also those
            that come.
        keys_never_move: the promise that two rows of one key agree on the columns that regions are made of,
            where those are not part of the key.
        writer_defaults: options that writers start from.
    """

    region_by: str = UNSHARDED
    maintained_indexes: tuple[str, ...] | None = None
    keys_never_move: bool = False
    writer_defaults: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
