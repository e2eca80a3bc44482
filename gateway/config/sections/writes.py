"""Writing, and the jobs of the pipeline that users start."""

import re
from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from lance_gateway.gateway.config.sections.section import Section
from lance_gateway.gateway.config.value_types import File, Seconds, Size


class WritesSection(Section):
    """Statements that write, and who writes a region where several gateways serve one root.

    Rows enter a region through the one gateway that has claimed it. `ownership` says what becomes of rows
    that arrive at another: `claim` takes the region over, `forward` sends them to its owner, `refuse` answers
    with an error that may be retried.
    """

    enabled: bool = Field(
        default=True, description="Take statements that write; false serves reads only (`--read-only`)."
    )
    ownership: Literal["claim", "forward", "refuse"] = Field(
        default="claim", description="What becomes of rows for a region that another process owns."
    )
    hold: Seconds = Field(
        default=1.0,
        description="How long a claimed region stays with its owner before another gateway may claim it, "
        "unless the owner let it go.",
    )
    claim_timeout: Seconds = Field(
        default=30.0,
        gt=0,
        description="How long a statement waits for its region, or for the region's owner, until it fails.",
    )
    advertise_url: str = Field(
        default="",
        description="Where other gateways reach this one, such as grpc+tls://gateway-1:31337; needed to "
        "forward and to refuse.",
    )
    peer_token: str = Field(
        default="",
        repr=False,
        description="Secret that all gateways of a root share, at least 16 characters; needed to forward.",
    )
    peer_token_file: File = Field(
        default=None, description="File that holds the secret, in place of `peer_token`."
    )
    peer_ca_file: File = Field(
        default=None,
        description="PEM file of the authorities that the certificates of other gateways may come from; none "
        "trusts those of this machine.",
    )
    max_queued_bytes: Size = Field(
        default=64 << 20,
        gt=0,
        description="Rows that wait for one region's writer; more of them wait with their clients.",
    )
    max_memtable_rows: int = Field(
        default=100_000, ge=1, description="Rows of one MemTable: a region is flushed when it has so many."
    )
    max_memtable_bytes: Size = Field(
        default=256 << 20, gt=0, description="Bytes of one MemTable: a region is flushed when it has so many."
    )
    idle_close: Seconds = Field(
        default=300.0, description="A region that nobody writes to for so long is flushed and let go."
    )
    flush_timeout: Seconds = Field(
        default=20.0,
        description="After a signal to stop: how long flushing may take. What does not fit stays in the log, "
        "where it is safe; 0 leaves all of it there.",
    )

    @field_validator("advertise_url")
    @classmethod
    def _check_address(cls, value: str) -> str:
        if not value:
            return value
        match = re.fullmatch(r"grpc(\+tls)?://(\[[0-9a-fA-F:]+\]|[^/:@\s]+):(\d+)", value)
        if match is None or not 0 < int(match[3]) <= 65535:
            raise ValueError("it is not an address such as grpc+tls://gateway-1:31337")
        if match[2] in ("0.0.0.0", "[::]"):  # noqa: S104 - refused
            raise ValueError("no gateway can be reached there: name this machine")
        return value

    @field_validator("peer_token")
    @classmethod
    def _check_length(cls, value: str) -> str:
        if value and (len(value) < 16 or not value.isascii() or not value.isprintable() or " " in value):
            raise ValueError("it must be 16 or more ASCII characters without spaces (openssl rand -hex 32)")
        return value

    @field_validator("peer_token_file")
    @classmethod
    def _check_only_one(cls, value: File, info: ValidationInfo) -> File:
        if value is not None and info.data.get("peer_token"):
            raise ValueError("writes.peer_token is set, too: choose one")
        return value


class JobsSection(Section):
    """Jobs of the pipeline that users start from the console, each in a process of its own.

    Whoever may write a table and sees all of it starts them. They run beside statements, with a lower
    priority, and what they use is not part of the gateway's limits. `[pipeline.*]` tells them the rest.
    """

    max_running: int = Field(
        default=1,
        ge=0,
        le=64,
        description="Jobs at a time, one of each table; more are refused. 0 offers none.",
    )
    timeout: Seconds = Field(default=3600.0, description="Longer jobs are stopped; 0 stops none.")
